#include "random_heads.h"

#include <bit>
#include <cstring>
#include <fstream>
#include <random>

#include "core/error.h"
#include "io/json.h"

namespace talon::test {
namespace {

/// A safetensors file of bf16 and i64 tensors on its way to the disk.
class HeadWriter {
 public:
  explicit HeadWriter(std::uint32_t seed) : random_(seed) {}

  /// around: 1 for norms.
  void add(const std::string& name, const std::vector<std::int64_t>& shape, float around = 0) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    const float scale = 1.0F / static_cast<float>(shape.back());
    std::normal_distribution<float> noise(0, shape.size() == 1 ? 0.02F : std::sqrt(scale));
    const std::size_t begin = data_.size();
    data_.resize(begin + static_cast<std::size_t>(count) * 2);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(around + noise(random_));
      const auto half = static_cast<std::uint16_t>(bits >> 16);
      std::memcpy(data_.data() + begin + 2 * i, &half, 2);
    }
    note(name, "BF16", shape, begin);
  }
  void add_ids(const std::string& name, const std::vector<std::int64_t>& values) {
    const std::size_t begin = data_.size();
    data_.append(reinterpret_cast<const char*>(values.data()), values.size() * 8);
    note(name, "I64", {static_cast<std::int64_t>(values.size())}, begin);
  }
  /// One layer that reads `input` columns.
  void add_layer(const std::string& prefix, const ModelConfig& c, int input) {
    const int attended = c.heads * c.head_dim, shared = c.kv_heads * c.head_dim;
    add(prefix + "self_attn.q_proj.weight", {attended, input});
    add(prefix + "self_attn.k_proj.weight", {shared, input});
    add(prefix + "self_attn.v_proj.weight", {shared, input});
    add(prefix + "self_attn.o_proj.weight", {c.hidden, attended});
    add(prefix + "post_attention_layernorm.weight", {c.hidden}, 1);
    add(prefix + "mlp.gate_proj.weight", {c.intermediate, c.hidden});
    add(prefix + "mlp.up_proj.weight", {c.intermediate, c.hidden});
    add(prefix + "mlp.down_proj.weight", {c.hidden, c.intermediate});
  }

  std::filesystem::path write(const std::filesystem::path& folder, const Json& config) const {
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "config.json") << config.dump();
    const std::string header = header_.dump();
    const std::uint64_t bytes = header.size();
    std::ofstream file(folder / "model.safetensors", std::ios::binary);
    file.write(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    file << header << data_;
    if (!file.flush()) fail("write head {}: the file takes no more", folder.string());
    return folder;
  }

 private:
  void note(const std::string& name, const char* type, const std::vector<std::int64_t>& shape,
            std::size_t begin) {
    header_[name] = {{"dtype", type}, {"shape", shape}, {"data_offsets", {begin, data_.size()}}};
  }

  std::mt19937 random_;
  Json header_;
  std::string data_;
};

Json config_for(const ModelConfig& target) {
  return {{"num_attention_heads", target.heads},
          {"head_dim", target.head_dim},
          {"rms_norm_eps", 1e-5},
          {"max_position_embeddings", target.context},
          {"vocab_size", target.vocabulary},
          {"bias", false},
          {"tap_layers", {1, target.layers / 2, target.layers - 1}}};
}

HeadWriter eagle1(const ModelConfig& target) {
  HeadWriter head(1);
  head.add("fc.weight", {target.hidden, 2 * target.hidden});
  head.add_layer("layers.0.", target, target.hidden);
  return head;
}

HeadWriter eagle3(const ModelConfig& target, int draft_vocabulary) {
  HeadWriter head(3);
  const int rows = draft_vocabulary > 0 ? draft_vocabulary : target.vocabulary;
  head.add("fc.weight", {target.hidden, 3 * target.hidden});
  head.add_layer("midlayer.", target, 2 * target.hidden);
  for (const char* norm : {"midlayer.input_layernorm", "midlayer.hidden_norm", "norm"}) {
    head.add(std::string(norm) + ".weight", {target.hidden}, 1);
  }
  head.add("lm_head.weight", {rows, target.hidden});
  if (rows == target.vocabulary) return head;
  // Evenly spread over the vocabulary: token i of the draft is token i * step.
  std::vector<std::int64_t> differences;
  const std::int64_t step = target.vocabulary / rows;
  for (std::int64_t i = 0; i < rows; ++i) differences.push_back(i * (step - 1));
  head.add_ids("d2t", differences);
  return head;
}

/// A block drafter of two layers.
HeadWriter dflash(const ModelConfig& target) {
  HeadWriter head(7);
  head.add("fc.weight", {target.hidden, 3 * target.hidden});
  for (const char* norm : {"hidden_norm", "norm"}) {
    head.add(std::string(norm) + ".weight", {target.hidden}, 1);
  }
  for (const char* layer : {"layers.0.", "layers.1."}) {
    head.add_layer(layer, target, target.hidden);
    head.add(std::string(layer) + "input_layernorm.weight", {target.hidden}, 1);
    for (const char* norm : {"self_attn.q_norm.weight", "self_attn.k_norm.weight"}) {
      head.add(std::string(layer) + norm, {target.head_dim}, 1);
    }
  }
  return head;
}

/// The same with a bias by the token before.
HeadWriter dspark(const ModelConfig& target, MarkovKind markov) {
  constexpr int kRank = 16;
  HeadWriter head = dflash(target);
  for (const char* matrix : {"markov_w1", "markov_w2"}) {
    head.add(fmt::format("markov_head.{}.weight", matrix), {target.vocabulary, kRank});
  }
  head.add("confidence_head.proj.weight", {1, target.hidden + kRank});
  head.add("confidence_head.proj.bias", {1});
  if (markov == MarkovKind::vanilla) return head;
  const bool has_state = markov == MarkovKind::rnn;
  const int rows = has_state ? 3 * kRank : kRank;
  const std::string joint(joint_tensor_of(markov));
  head.add(joint + ".weight", {rows, target.hidden + (has_state ? 2 * kRank : kRank)});
  head.add(joint + ".bias", {rows});
  return head;
}

Json block_config(const ModelConfig& target, const char* architecture) {
  const int middle = target.layers / 2;
  return {{"architectures", {architecture}},
          {"num_attention_heads", target.heads},
          {"head_dim", target.head_dim},
          {"rms_norm_eps", 1e-5},
          {"vocab_size", target.vocabulary},
          {"block_size", 6},
          {"mask_token_id", 0},
          {"target_layer_ids", {0, middle, target.layers - 2}},
          {"layer_types", {"full_attention", "sliding_attention"}},
          {"sliding_window", 9}};
}

HeadWriter peagle(const ModelConfig& target) {
  HeadWriter head = eagle3(target, 0);
  head.add_layer("layers.1.", target, target.hidden);
  head.add("layers.1.input_layernorm.weight", {target.hidden}, 1);
  head.add("mask_hidden", {1, 1, 3 * target.hidden});
  return head;
}

HeadWriter medusa(const ModelConfig& target) {
  HeadWriter heads(5);
  for (int head = 0; head < 3; ++head) {
    const std::string block = fmt::format("{}.0.linear.", head);
    heads.add(block + "weight", {target.hidden, target.hidden});
    heads.add(block + "bias", {target.hidden});
  }
  return heads;
}

}  // namespace

std::vector<std::filesystem::path> write_random_heads(const std::filesystem::path& folder,
                                                      const ModelConfig& target,
                                                      int draft_vocabulary, MarkovKind markov) {
  const Json config = config_for(target);
  Json with_mask = config;
  with_mask["mask_token_id"] = 0;
  return {eagle1(target).write(folder / "eagle1", config),
          eagle3(target, draft_vocabulary).write(folder / "eagle3", config),
          medusa(target).write(folder / "medusa", config),
          peagle(target).write(folder / "peagle", with_mask),
          dflash(target).write(folder / "dflash", block_config(target, "DFlashDraftModel")),
          write_random_dspark(folder / "dspark", target, markov)};
}

std::filesystem::path write_random_dspark(const std::filesystem::path& folder,
                                          const ModelConfig& target, MarkovKind markov) {
  Json config = block_config(target, "Qwen3DSparkModel");
  config["markov_head_type"] = std::string(name_of(markov));
  return dspark(target, markov).write(folder, config);
}

}  // namespace talon::test
