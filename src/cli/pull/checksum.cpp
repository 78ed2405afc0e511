#include "cli/pull/checksum.h"

#include "cli/terminal/progress_meter.h"
#include "core/error.h"
#include "io/sha256.h"

namespace talon {

std::string checksum_of(const std::filesystem::path& file, const StopFlag* stop) {
  std::error_code problem;
  const std::uintmax_t total = std::filesystem::file_size(file, problem);
  ProgressMeter meter("check " + file.filename().string(), ProgressMeter::Unit::bytes);
  return sha256_of_file(file, [&](std::uint64_t bytes) {
    if (stop && stop->requested()) fail("check {}: stopped", file.string());
    meter.update(bytes, problem ? 0 : total);
  });
}

}  // namespace talon
