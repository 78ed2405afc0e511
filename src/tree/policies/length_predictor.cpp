#include "tree/policies/length_predictor.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.h"
#include "io/quote.h"

namespace talon {
namespace {

constexpr int kBlocks = 2;
constexpr int kMostLength = 64;

float silu(float x) { return x / (1 + std::exp(-x)); }

std::string text_in(const Checkpoint& file, const char* field) {
  const auto found = file.metadata.find(field);
  if (found == file.metadata.end() || !found->is_string()) {
    fail("read length predictor {}: expected the text \"{}\" in its metadata, found none",
         quote(file.path.string()), field);
  }
  return found->get<std::string>();
}

int count_in(const Checkpoint& file, const char* field) {
  const std::string text = text_in(file, field);
  int count = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (problem != std::errc() || end != text.data() + text.size() || count < 1 ||
      count > kMostLength) {
    fail("read length predictor {}: expected {} from 1 to {}, found {}", quote(file.path.string()),
         field, kMostLength, quote(text));
  }
  return count;
}

}  // namespace

LengthPredictor::LengthPredictor(const Checkpoint& file) {
  if (!file.metadata.is_object()) {
    fail("read length predictor {}: expected metadata, found none", quote(file.path.string()));
  }
  const std::string kind = text_in(file, "kind");
  if (kind != "asymmetric" && kind != "ordinal") {
    fail("read length predictor {}: expected kind asymmetric or ordinal, found {}",
         quote(file.path.string()), quote(kind));
  }
  kind_ = kind == "ordinal" ? Kind::ordinal : Kind::asymmetric;
  most_ = count_in(file, "k_max");
  in_ = read_dense(file, "in.weight", "in.bias", -1, -1);
  for (int i = 0; i < kBlocks; ++i) {
    const std::string name = fmt::format("blocks.{}.", i);
    blocks_.push_back(
        read_dense(file, name + "weight", name + "bias", in_.outputs(), in_.outputs()));
  }
  const int outputs = kind_ == Kind::ordinal ? most_ : 1;
  out_ = read_dense(file, "out.weight", "out.bias", outputs, in_.outputs());
  file.check_whole();
}

std::span<const float> LengthPredictor::predict(std::span<const float> feature,
                                                Scratch& scratch) const {
  auto& [x, step, result] = scratch;
  x.resize(static_cast<std::size_t>(in_.outputs()));
  step.resize(x.size());
  result.resize(static_cast<std::size_t>(out_.outputs()));
  in_.apply(feature, x);
  for (float& value : x) value = silu(value);
  for (const Dense& block : blocks_) {
    block.apply(x, step);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += silu(step[i]);
  }
  out_.apply(x, result);
  if (kind_ == Kind::asymmetric) return result;
  float least = 1;
  for (float& value : result) value = least = std::min(least, 1 / (1 + std::exp(-value)));
  return result;
}

}  // namespace talon
