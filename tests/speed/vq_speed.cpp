// What making pixels of codes takes (image/vq_decoder.h), 16 by 16 cells: with the tokenizer of the
// model that ships, and with random values in the layout of LlamaGen's VQ-16, whose multiplications
// a second stand beside those of a product of matrices; of_product is their share of these. The
// argument is how many threads.
#include <benchmark/benchmark.h>
#include <dnnl.h>
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "core/stopwatch.h"
#include "image/vq_decoder.h"
#include "image/vq_layers.h"

namespace talon {
namespace {

constexpr int kSide = 16;

std::vector<TokenId> some_codes(int codes) {
  std::mt19937 random(1);
  std::vector<TokenId> some(kSide * kSide);
  for (TokenId& code : some) code = static_cast<TokenId>(random() % static_cast<unsigned>(codes));
  return some;
}

/// A decoder with the tensors of vq_ds16_c2i.pt, and its multiplications for a picture.
class Vq16 {
 public:
  Vq16() {
    add("quantize.embedding.weight", {16384, 8});
    convolution("post_quant_conv", 8, 256, 1);
    convolution("decoder.conv_in", 256, 512, 3);
    residual("decoder.mid.0", 512, 512);
    attention("decoder.mid.1", 512);
    residual("decoder.mid.2", 512, 512);
    int channels = 512;
    const int of_level[] = {512, 256, 256, 128, 128};
    for (int level = 0; level < 5; ++level) {
      const std::string at = fmt::format("decoder.conv_blocks.{}.", level);
      for (int block = 0; block < 3; ++block) {
        residual(fmt::format("{}res.{}", at, block), channels, of_level[level]);
        channels = of_level[level];
        if (level == 0) attention(fmt::format("{}attn.{}", at, block), channels);
      }
      if (level == 4) break;
      side_ *= 2;
      constexpr int kSeen = 4;  // cells that a pixel of the doubled plane sees by a 3x3
      convolution(at + "upsample.conv", channels, channels, 3, kSeen);
    }
    norm("decoder.norm_out", channels);
    convolution("decoder.conv_out", channels, 3, 3);
  }
  const Checkpoint& files() const { return files_; }
  double multiplications() const { return multiplications_; }

 private:
  void add(const std::string& name, const std::vector<std::int64_t>& shape) {
    std::size_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    std::vector<float>& values = values_.emplace_back(count);
    for (float& value : values) {
      state_ = state_ * 1664525U + 1013904223U;
      value = (static_cast<float>(state_ >> 8U) / 0x1p24F - 0.5F) / 16;
    }
    files_.tensors.push_back({name, StorageType::f32, shape, std::as_bytes(std::span(values))});
  }
  void convolution(const std::string& name, int in, int out, int width) {
    convolution(name, in, out, width, width * width);
  }
  void convolution(const std::string& name, int in, int out, int width, int seen) {
    add(name + ".weight", {out, in, width, width});
    add(name + ".bias", {out});
    multiplications_ += static_cast<double>(in) * out * seen * side_ * side_;
  }
  void norm(const std::string& name, int channels) {
    add(name + ".weight", {channels});
    add(name + ".bias", {channels});
  }
  void residual(const std::string& name, int in, int out) {
    norm(name + ".norm1", in);
    convolution(name + ".conv1", in, out, 3);
    norm(name + ".norm2", out);
    convolution(name + ".conv2", out, out, 3);
    if (in != out) convolution(name + ".nin_shortcut", in, out, 1);
  }
  void attention(const std::string& name, int channels) {
    norm(name + ".norm", channels);
    for (const char* part : {".q", ".k", ".v", ".proj_out"})
      convolution(name + part, channels, channels, 1);
    const double cells = static_cast<double>(side_) * side_;
    multiplications_ += 2 * cells * cells * channels;
  }

  Checkpoint files_{.format = CheckpointFormat::torch_bin,
                    .path = "vq16",
                    .metadata = Json::object(),
                    .tensors = {},
                    .files = {},
                    .owned = {}};
  std::deque<std::vector<float>> values_;
  std::uint32_t state_ = 1;
  int side_ = kSide;
  double multiplications_ = 0;
};

void set_rate(benchmark::State& state, double multiplications) {
  state.counters["GMAC/s"] =
      benchmark::Counter(multiplications / 1e9, benchmark::Counter::kIsIterationInvariantRate);
}

/// A convolution of the largest level, written out.
class Product {
 public:
  explicit Product(int threads) : at_most_(threads) {}

  static double multiplications() { return static_cast<double>(kCells * kIn * kOut); }
  void run() {
    dnnl_sgemm('N', 'N', kCells, kOut, kIn, 1, a_.data(), kIn, b_.data(), kOut, 0, out_.data(),
               kOut);
    benchmark::DoNotOptimize(out_.data());
  }
  /// Multiplications a second, of the quickest of some runs.
  double rate() {
    constexpr int kRuns = 8;
    run();  // compiles it
    double most = 0;
    for (int i = 0; i < kRuns; ++i) {
      const Stopwatch watch;
      run();
      most = std::max(most, multiplications() * 1000 / watch.ms());
    }
    return most;
  }

 private:
  static constexpr std::int64_t kCells = 256 * 256 / 4, kIn = 9 * 128, kOut = 128;

  OneDnnThreads at_most_;
  std::vector<float> a_ = std::vector<float>(kCells * kIn, 0.5F);
  std::vector<float> b_ = std::vector<float>(kIn * kOut, 0.25F);
  std::vector<float> out_ = std::vector<float>(kCells * kOut);
};

/// The seconds that a picture took.
double decode(benchmark::State& state, const Checkpoint& files) {
  const VqDecoder decoder(files, kSide, kSide, static_cast<int>(state.range(0)));
  const std::vector<TokenId> codes = some_codes(decoder.codes());
  const Stopwatch watch;
  for (auto _ : state) benchmark::DoNotOptimize(decoder.decode(codes));
  return watch.ms() / 1000 / static_cast<double>(state.iterations());
}

void emoji(benchmark::State& state) { decode(state, open_checkpoint(TALON_EMOJI_VQ)); }

void vq16(benchmark::State& state) {
  const Vq16 tokenizer;
  const double rate = Product(static_cast<int>(state.range(0))).rate();
  const double seconds = decode(state, tokenizer.files());
  set_rate(state, tokenizer.multiplications());
  state.counters["of_product"] = tokenizer.multiplications() / seconds / rate;
}

void product(benchmark::State& state) {
  Product one(static_cast<int>(state.range(0)));
  for (auto _ : state) one.run();
  set_rate(state, Product::multiplications());
}

BENCHMARK(emoji)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(vq16)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(product)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace talon
