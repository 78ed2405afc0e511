#include "model_mutator.h"

#include <cstring>

namespace talon::fuzz {
namespace {

const std::vector<Json>& odd_values() {
  static const std::vector<Json> values = {0,
                                           1,
                                           -1,
                                           2,
                                           3,
                                           7,
                                           8,
                                           16,
                                           63,
                                           64,
                                           65,
                                           511,
                                           512,
                                           513,
                                           1 << 20,
                                           1LL << 31,
                                           (1LL << 32) + 5,
                                           9223372036854775807LL,
                                           1e308,
                                           1e-308,
                                           0.5,
                                           "x",
                                           "",
                                           "llama3",
                                           "yarn",
                                           "linear",
                                           "gated",
                                           "rnn",
                                           nullptr,
                                           true,
                                           false,
                                           Json::array(),
                                           Json::array({1, 2}),
                                           Json::array({0, 5, 5}),
                                           Json::object()};
  return values;
}

// Tensors of targets, of all kinds of heads and of tokenizers of pictures.
constexpr const char* kTensorNames[] = {"lm_head.weight",
                                        "embed_tokens.weight",
                                        "norm.weight",
                                        "t2d",
                                        "d2t",
                                        "token_map",
                                        "fc.bias",
                                        "fc_norm.0.weight",
                                        "input_norm.weight",
                                        "embedding_norm.weight",
                                        "midlayer.self_attn.q_norm.weight",
                                        "midlayer.self_attn.q_proj.bias",
                                        "layers.0.input_layernorm.weight",
                                        "medusa_head.0.0.linear.weight",
                                        "0.0.linear.bias",
                                        "1.0.linear.weight",
                                        "0.1.weight",
                                        "mask_hidden",
                                        "hidden_norm.weight",
                                        "markov_head.markov_w1.weight",
                                        "markov_head.gate_proj.weight",
                                        "markov_head.joint_proj.bias",
                                        "confidence_head.proj.bias",
                                        "model.layers.0.mlp.gate.weight",
                                        "model.layers.1.mlp.gate.e_score_correction_bias",
                                        "model.layers.0.mlp.experts.0.up_proj.weight",
                                        "model.layers.0.linear_attn.conv1d.weight",
                                        "model.layers.0.linear_attn.A_log",
                                        "model.layers.0.self_attn.kv_b_proj.weight",
                                        "model.layers.0.self_attn.q_norm.weight",
                                        "model.layers.0.self_attn.q_proj.g_idx",
                                        "model.layers.0.self_attn.q_proj.qzeros",
                                        "model.layers.0.self_attn.q_proj.weight_scale",
                                        "mtp.fc.weight",
                                        "tok_embeddings.weight",
                                        "cls_embedding.uncond_embedding",
                                        "layers.0.attention.wqkv.weight",
                                        "gen_head.vision_head.bias",
                                        "model.layers.0.self_attn.q_norm.bias",
                                        "quantize.embedding.weight",
                                        "decoder.conv_in.weight",
                                        "decoder.mid.0.norm1.weight"};

Json odd(const Json& value, Chooser& choose) {
  if (value.is_number_integer() && choose.chance(0.5)) {
    constexpr std::int64_t kMost = 1LL << 40;  // of what is added to or doubled
    const auto number = value.get<std::int64_t>();
    const bool far = number > kMost || number < -kMost;
    if (choose.chance(0.5)) {
      const auto step = static_cast<std::int64_t>(choose.below(5)) - 2;
      return far ? number : number + step;
    }
    return choose.chance(0.5) ? number / 2 : far ? number : number * 2;
  }
  return choose.one_of(odd_values());
}

auto any_entry(Json& json, Chooser& choose) {
  return std::next(json.begin(), static_cast<std::ptrdiff_t>(choose.below(json.size())));
}

bool has_entries(const Json& json) { return json.is_structured() && !json.empty(); }

void damage_json(Json& json, Chooser& choose) {
  if (!has_entries(json)) return;
  auto entry = any_entry(json, choose);
  if (choose.chance(0.1)) {
    json.erase(entry);
  } else if (json.is_array() && choose.chance(0.1)) {
    json.push_back(odd(1, choose));
  } else if (has_entries(*entry) && choose.chance(0.7)) {
    damage_json(*entry, choose);
  } else {
    *entry = odd(*entry, choose);
  }
}

/// A safetensors file in its two parts.
struct SplitWeights {
  explicit SplitWeights(const std::string& file) {
    std::uint64_t size = 0;
    std::memcpy(&size, file.data(), sizeof size);
    header = Json::parse(file.substr(sizeof size, size));
    data = file.substr(sizeof size + size);
  }
  std::string joined() const {
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const std::uint64_t size = text.size();
    return std::string(reinterpret_cast<const char*>(&size), sizeof size) + text + data;
  }

  Json header;
  std::string data;
};

/// Another name, or that of another tensor, which takes its own.
void rename_tensor(Json& header, Chooser& choose) {
  const auto entry = any_entry(header, choose);
  if (choose.chance(0.5)) return std::swap(*entry, *any_entry(header, choose));
  const Json tensor = *entry;
  header.erase(entry);
  header[kTensorNames[choose.below(std::size(kTensorNames))]] = tensor;
}

/// Another shape of as many numbers.
void reshape_tensor(Json& header, Chooser& choose) {
  Json& tensor = *any_entry(header, choose);
  if (!tensor.is_object() || !tensor.contains("shape")) return;
  Json& shape = tensor["shape"];
  if (!shape.is_array() || shape.empty()) return;
  if (shape.size() != 2) {
    shape = Json::array({1, shape[0]});
  } else if (choose.chance(0.5)) {
    std::swap(shape[0], shape[1]);
  } else if (shape[0].is_number_integer() && shape[1].is_number_integer()) {
    const auto rows = shape[0].get<std::int64_t>();
    if (rows % 2 == 0) shape = Json::array({rows / 2, shape[1].get<std::int64_t>() * 2});
  }
}

void change_bytes(std::string& data, Chooser& choose) {
  for (std::size_t left = 1 + choose.below(8); left > 0; --left) {
    data[choose.below(data.size())] = static_cast<char>(choose.number());
  }
}

void write_extreme_numbers(std::string& data, Chooser& choose) {
  for (std::size_t place = 0; place + sizeof(float) <= data.size();
       place += sizeof(float) * (1 + choose.below(2000))) {
    const float value = choose.one_of({3e38F, 1e-40F});
    std::memcpy(&data[place], &value, sizeof value);
  }
}

void damage_weights(SplitWeights& weights, Chooser& choose) {
  if (weights.header.empty() || weights.data.empty()) return;
  switch (choose.below(6)) {
    case 0:
      return rename_tensor(weights.header, choose);
    case 1:
    case 2:
      return reshape_tensor(weights.header, choose);
    case 3:
      return change_bytes(weights.data, choose);
    case 4:
      return write_extreme_numbers(weights.data, choose);
    default:
      return damage_json(weights.header, choose);
  }
}

}  // namespace

void damage(ModelFiles& files, Chooser& choose) {
  Json config = Json::parse(files.config);
  SplitWeights weights(files.weights);
  for (std::size_t left = 1 + choose.below(3); left > 0; --left) {
    if (choose.chance(0.5)) {
      damage_json(config, choose);
    } else {
      damage_weights(weights, choose);
    }
  }
  files = {config.dump(), weights.joined()};
}

}  // namespace talon::fuzz
