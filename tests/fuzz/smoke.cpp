// A short deterministic fuzzing run without libFuzzer, for compilers and test runs that do not have
// it: fuzz_smoke_TARGET CORPUS_FOLDER SECONDS. Runs every seed as it is, then mutations of the
// seeds in an order that depends on nothing but the corpus. A finding ends the program with the
// input in ./fuzz-finding.bin (exceptions) or by the sanitizer.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "fuzz_target.h"

namespace {

using Input = std::string;

std::vector<Input> read_seeds(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry);
  std::sort(files.begin(), files.end());
  std::vector<Input> seeds;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return seeds;
}

class Mutator {
 public:
  Input mutate(const std::vector<Input>& seeds) {
    Input input = seeds[below(seeds.size())];
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) change(input, seeds);
    return input;
  }

 private:
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  void change(Input& input, const std::vector<Input>& seeds) {
    const std::size_t place = below(input.size());
    switch (below(7)) {
      case 0:
        if (!input.empty()) input[place] = static_cast<char>(input[place] ^ (1 << below(8)));
        break;
      case 1:
        if (!input.empty()) input[place] = static_cast<char>(random_());
        break;
      case 2:
        write_number(input, place);
        break;
      case 3:
        input.erase(place, 1 + below(16));
        break;
      case 4:
        input.insert(place, input.substr(below(input.size()), 1 + below(64)));
        break;
      case 5:
        input.resize(place);
        break;
      default: {  // the head of one seed and the tail of another
        const Input& other = seeds[below(seeds.size())];
        input = input.substr(0, place) + other.substr(std::min(place, other.size()));
      }
    }
  }

  void write_number(Input& input, std::size_t place) {
    constexpr std::uint64_t kNumbers[] = {
        0,          1,          0x7F,       0xFF,      0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE,
        0xFFFFFFFF, 1ull << 40, ~0ull >> 1, ~0ull - 1, ~0ull,  1ull << 63, 1ull << 61};
    const std::uint64_t number = kNumbers[below(std::size(kNumbers))];
    const std::size_t width = std::size_t{1} << below(4);
    for (std::size_t i = 0; i < width && place + i < input.size(); ++i) {
      input[place + i] = static_cast<char>(number >> (8 * i));
    }
  }

  std::mt19937_64 random_{20240607};
};

// A copy of the input's exact size, so that AddressSanitizer sees a read past its end.
void run_one(const Input& input) {
  const auto exact = std::make_unique<std::uint8_t[]>(input.size());
  std::copy(input.begin(), input.end(), exact.get());
  try {
    LLVMFuzzerTestOneInput(exact.get(), input.size());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "finding: %s; the input is in fuzz-finding.bin\n", error.what());
    std::ofstream("fuzz-finding.bin", std::ios::binary) << input;
    std::exit(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER SECONDS\n", argv[0]);
    return 2;
  }
  const std::vector<Input> seeds = read_seeds(argv[1]);
  if (seeds.empty()) {
    std::fprintf(stderr, "%s: expected seeds, found none\n", argv[1]);
    return 1;
  }
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(std::atof(argv[2])));
  for (const Input& seed : seeds) run_one(seed);
  Mutator mutator;
  std::size_t runs = seeds.size();
  for (; Clock::now() < end; ++runs) run_one(mutator.mutate(seeds));
  std::printf("%zu inputs from %zu seeds, no finding\n", runs, seeds.size());
}
