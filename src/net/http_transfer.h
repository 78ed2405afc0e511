#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace talon {

inline constexpr int kHttpDone = 200;  // the status of what went well

/// One request over HTTP, through the proxy that the environment names as libcurl reads it
/// (http_proxy, no_proxy); never through one to this machine.
struct HttpTransfer {
  std::string url;
  std::vector<std::string> headers = {};  // "Name: value"
  std::optional<std::string> body = {};   // makes it a POST
  bool takes_files = false;               // file: addresses, too
  bool goes_on = false;                   // to where the server sends it
  bool fails_by_status = false;           // 400 and above are failures
  int connect_seconds = 30;
  int silence_seconds = 60;  // of a connection on which nothing comes

  // Called while it runs. What they throw ends the transfer and leaves run_transfer().
  std::function<bool(int status, std::string_view piece)> on_data;  // false ends it
  std::function<void(std::string_view line)> on_header = {};
  std::function<void(std::uint64_t done, std::uint64_t total)> on_progress =
      {};                            // total 0: unknown
  std::function<bool()> stops = {};  // asked often
};

/// One line of an answer's headers.
struct HttpHeader {
  std::string name = {};   // in lower case; empty: the line is no header
  std::string value = {};  // without the space around it
};
HttpHeader parse_header(std::string_view line);

struct TransferOutcome {
  enum class End { done, stopped, failed };
  enum class Connection { held, lost, none };  // none: it was not made
  End end = End::done;
  int status = 0;            // of HTTP
  std::string problem = {};  // what went wrong
  Connection connection = Connection::held;
};

/// Throws Error if the library of HTTP does not start.
TransferOutcome run_transfer(const HttpTransfer& transfer);

}  // namespace talon
