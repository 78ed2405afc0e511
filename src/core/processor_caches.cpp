#include "core/processor_caches.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace talon {
namespace {

template <typename Value>
Value read_value(const std::string& path) {
  Value value{};
  std::ifstream(path) >> value;
  return value;
}

/// "32768K" or "2M".
std::size_t bytes_of(const std::string& text) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return 0;
  const std::size_t unit = text.back() == 'M' ? 1 << 20 : text.back() == 'K' ? 1 << 10 : 1;
  return std::stoul(text) * unit;
}

}  // namespace

std::size_t cache_bytes(int level) {
  constexpr int kMostCaches = 8;
  for (int i = 0; i < kMostCaches; ++i) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
    if (read_value<int>(folder + "level") != level) continue;
    if (read_value<std::string>(folder + "type") == "Instruction") continue;
    if (const std::size_t bytes = bytes_of(read_value<std::string>(folder + "size"))) return bytes;
  }
  const long bytes = level == 2   ? sysconf(_SC_LEVEL2_CACHE_SIZE)
                     : level == 3 ? sysconf(_SC_LEVEL3_CACHE_SIZE)
                                  : 0;
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

}  // namespace talon
