#include "model/load/fingerprint.h"

#include <fmt/format.h>

#include <vector>

#include "core/error.h"
#include "core/half.h"
#include "io/sha256.h"
#include "model/config/tensor_names.h"

namespace talon {
namespace {

constexpr std::size_t kDigits = 16;

}  // namespace

std::string fingerprint_of(const Checkpoint& checkpoint, const ModelConfig& config) {
  const TensorNames names = TensorNames::of(checkpoint.format, config);
  const StoredTensor& norm = checkpoint.require(names.final_norm + ".weight");
  if (norm.shape != std::vector<std::int64_t>{config.hidden}) {
    fail("{}: tensor {}: expected {} values", checkpoint.path.string(), norm.name, config.hidden);
  }
  std::vector<float> values(static_cast<std::size_t>(config.hidden));
  dequantize(norm.type, norm.bytes, values);
  // Rounded as models are published, whatever the file's type is; some files hold weights less one.
  std::vector<std::uint16_t> rounded;
  for (const float value : values) {
    rounded.push_back(float_to_bf16(config.forms.norm_plus_one ? value + 1 : value));
  }
  Sha256 hash;
  const std::string sizes =
      fmt::format("{} {} {}", config.layers, config.hidden, config.vocabulary);
  hash.update(std::as_bytes(std::span(sizes)));
  hash.update(std::as_bytes(std::span(rounded)));
  return hash.finish().substr(0, kDigits);
}

}  // namespace talon
