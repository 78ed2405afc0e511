#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "cli/image/asked_picture.h"
#include "draw/picture_facts.h"
#include "image/vq_decoder.h"
#include "runtime/cache_budget.h"
#include "runtime/decode_settings.h"

namespace talon {

/// What the lines of a batch have in common.
struct BatchOptions {
  std::filesystem::path file, folder;  // JSON lines, and where pictures go
  PictureFacts usual;                  // what lines do not say; seed: of the first line
  DecodeSettings decode;
  std::optional<KvType> kv;
  bool json = false;
};

/// A line of a batch.
struct BatchLine {
  int number = 0;
  AskedPicture asked;
  PictureFacts facts;
  std::filesystem::path file;
};

/// JSON lines: what asks for a picture (read_asked_picture), "seed" (else that of the options, one
/// more for each line before it), "guidance", "guidance_tokens", "out" (a name in the folder; else
/// the number of the line, 00001.png). Empty lines are passed over. Throws UsageError or Error
/// naming the line, for other keys, too, and for two lines with one name.
std::vector<BatchLine> read_batch(const LoadedModel& loaded, const BatchOptions& options);

/// Those whose pictures are not there. batch: the file of the lines. Throws UsageError naming both
/// for a file that is not the picture that its line asks for.
std::vector<BatchLine> left_of(const std::vector<BatchLine>& lines,
                               const std::filesystem::path& batch);

/// Draws what is left of a batch; each picture is written when it is whole, so a batch that was
/// stopped goes on. Files, or with --json an object for each and a summary, go to standard output.
/// The exit code.
int run_batch(const LoadedModel& loaded, const VqDecoder& decoder, const BatchOptions& options);

}  // namespace talon
