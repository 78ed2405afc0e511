#include "train/image/stored_tokenizer.h"

#include <fstream>
#include <sstream>

#include "core/error.h"
#include "io/checkpoint.h"
#include "io/json_text.h"
#include "io/sha256.h"
#include "train/image/training_run.h"

namespace talon {
namespace {

VqShape shape_of(const Json& json) {
  VqShape shape;
  json.at("channels").get_to(shape.channels);
  json.at("multipliers").get_to(shape.multipliers);
  json.at("blocks").get_to(shape.blocks);
  json.at("latent").get_to(shape.latent);
  json.at("codes").get_to(shape.codes);
  json.at("code_width").get_to(shape.code_width);
  return shape;
}

}  // namespace

StoredTokenizer::StoredTokenizer(const std::filesystem::path& folder, torch::ScalarType low) {
  const auto facts = folder / "tokenizer.json", weights = folder / kTokenizerFile;
  std::ifstream input(facts);
  std::ostringstream text;
  text << input.rdbuf();
  const std::string doing = "read " + facts.string();
  if (!input) fail("{}: cannot be read; talon train image tokenizer writes it", doing);
  const Json json = parse_json(text.str(), doing);
  try {
    shape_ = shape_of(json.at("shape"));
    json.at("side").get_to(side_);
  } catch (const Json::exception& problem) {
    fail("{}: {}", doing, problem.what());
  }
  const Checkpoint file = read_safetensors(weights);
  sha256_ = sha256_of_file(weights);
  parameters_.emplace(parameter_shapes(shape_), torch::kFloat, low, torch::kCPU);
  for (const std::string& name : parameters_->names())
    read_tensor(file, name, (*parameters_)[name].value);
  parameters_->refresh_low();
  model_.emplace(shape_, *parameters_);
  codebook_.emplace(shape_.codes, shape_.code_width);
  read_tensor(file, "quantize.embedding.weight", codebook_->vectors);
}

torch::Tensor StoredTokenizer::codes_of(const torch::Tensor& pictures) const {
  const torch::NoGradGuard no_gradient;
  return codebook_->nearest(model_->encode(pictures)).view({pictures.size(0), -1});
}

torch::Tensor StoredTokenizer::pictures_of(const torch::Tensor& codes) const {
  const torch::NoGradGuard no_gradient;
  return model_->decode(codebook_->look_up(codes.reshape({-1})), codes.size(0))
      .to(torch::kFloat)
      .clamp(-1, 1);
}

}  // namespace talon
