#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/stop.h"

namespace talon {

struct Download {
  std::string url;                        // http, https or file
  std::filesystem::path target;           // appears only when whole
  std::string sha256;                     // empty: not checked
  std::vector<std::string> headers = {};  // "Name: value", to the first host alone
  std::uint64_t bytes = 0;                // expected; 0: any
  const StopFlag* stop = nullptr;
  /// What a refusal of the server (a status of 400 and above) means; none, or empty text: its
  /// words.
  std::function<std::string(int status)> meaning = {};
};

/// Fetches a file. What has come of an interrupted download waits beside the target as `.part` and
/// is gone on with next time if it is of the same version, which `.part.etag` names: by the
/// checksum, else by the server's ETag; without either (a strong one) nothing is kept. Tries again
/// by itself where that may help (retry()). Throws Error for a server's refusal, a connection that
/// breaks too often, a full disk, a wrong checksum or another download of the same file that is
/// under way; the target is then untouched.
void download(const Download& job);

}  // namespace talon
