#include "bench/machine/bandwidth.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "core/machine/processors.h"
#include "core/stopwatch.h"
#include "trace/statistics.h"

namespace talon {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPrefetchAhead = 1024;

std::byte* map_memory(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fail("measure bandwidth: cannot allocate {} MiB: {}", bytes >> 20, std::strerror(errno));
  }
  madvise(memory, bytes, MADV_HUGEPAGE);  // a refusal only costs speed
  return static_cast<std::byte*>(memory);
}

std::uint64_t read_all(const std::byte* data, std::size_t bytes) {
  using Line = std::uint64_t __attribute__((vector_size(64)));
  Line sums[4] = {};
  for (std::size_t i = 0; i + 256 <= bytes; i += 256) {
    for (int line = 0; line < 4; ++line) {
      const std::byte* from = data + i + static_cast<std::size_t>(line) * 64;
      __builtin_prefetch(from + kPrefetchAhead);
      sums[line] |= *reinterpret_cast<const Line*>(from);
    }
  }
  std::uint64_t all = 0;
  for (const Line& sum : sums) {
    for (int i = 0; i < 8; ++i) all |= sum[i];
  }
  return all;
}

}  // namespace

BandwidthProbe::BandwidthProbe(int threads, std::size_t bytes)
    : pool_(worker_count(threads)), bytes_(bytes), data_(map_memory(bytes)) {
  const std::size_t share = bytes_ / static_cast<std::size_t>(pool_.threads()) / kPage * kPage;
  pool_.run(
      [&](int worker) { std::memset(data_ + share * static_cast<std::size_t>(worker), 1, share); });
}

BandwidthProbe::~BandwidthProbe() { munmap(data_, bytes_); }

double BandwidthProbe::sweep() {
  const std::size_t share = bytes_ / static_cast<std::size_t>(pool_.threads()) / kPage * kPage;
  std::atomic<std::uint64_t> sink{0};
  const Stopwatch watch;
  pool_.run([&](int worker) {
    sink |= read_all(data_ + share * static_cast<std::size_t>(worker), share);
  });
  const double ms = watch.ms();
  expects(sink != 0, "a sweep that read its buffer");
  return static_cast<double>(share) * pool_.threads() / ms / 1e6;
}

double read_bandwidth_gb_s(int threads, std::size_t bytes, int sweeps) {
  BandwidthProbe probe(threads, bytes);
  std::vector<double> rates;
  for (int i = 0; i < sweeps; ++i) rates.push_back(probe.sweep());
  return spread_of(rates).median;
}

}  // namespace talon
