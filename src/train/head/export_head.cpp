#include "train/head/export_head.h"

#include <vector>

#include "core/error.h"
#include "io/atomic_file.h"
#include "io/formats/write_safetensors.h"

namespace talon {
namespace {

using torch::Tensor;

constexpr int kContext = 2048;  // that official heads are trained for

/// The tensors of a file, kept until it is written.
class TensorList {
 public:
  void add(const std::string& name, const Tensor& value) {
    const Tensor half = value.detach().to(torch::kCPU).to(torch::kHalf).contiguous();
    if (!at::isfinite(half).all().item<bool>())
      fail("export head: tensor \"{}\": expected values that f16 holds, found larger or NaN", name);
    keep(name, StorageType::f16, half);
  }
  void keep(const std::string& name, StorageType type, const Tensor& tensor) {
    owned_.push_back(tensor);
    const auto bytes = static_cast<std::size_t>(tensor.numel()) * tensor.element_size();
    tensors_.push_back({name,
                        type,
                        {tensor.sizes().begin(), tensor.sizes().end()},
                        {static_cast<const std::byte*>(tensor.data_ptr()), bytes}});
  }
  std::span<const TensorToWrite> all() const { return tensors_; }

 private:
  std::vector<Tensor> owned_;
  std::vector<TensorToWrite> tensors_;
};

/// fc as the file has it: of unscaled taps, to the stream's own scale.
Tensor unscaled_fc(const HeadShape& shape, const Tensor& fc) {
  std::vector<Tensor> blocks = fc.chunk(shape.taps, 1);
  for (std::size_t tap = 0; tap < blocks.size(); ++tap)
    blocks[tap] = blocks[tap] * (shape.stream_scale / shape.tap_scale[tap]);
  return at::cat(blocks, 1);
}

void add_layer(const HeadExport& head, TensorList& list) {
  const bool eagle3 = head.shape.kind == HeadKind::eagle3;
  const std::string layer = eagle3 ? "midlayer." : "layers.0.";
  const auto value = [&](std::string_view name) { return head.parameters.part(head.values, name); };
  list.add("fc.weight", eagle3 ? unscaled_fc(head.shape, value("fc")) : value("fc"));
  if (eagle3) {
    list.add(layer + "input_layernorm.weight", value("embedding_norm"));
    list.add(layer + "hidden_norm.weight", value("feature_norm"));
    list.add("norm.weight", value("output_norm"));
  } else {
    list.add("fc.bias", value("fc_bias"));
  }
  const auto kv = value("kv").chunk(2, 0);
  const auto gate_up = value("gate_up").chunk(2, 0);
  list.add(layer + "self_attn.q_proj.weight", value("q"));
  list.add(layer + "self_attn.k_proj.weight", kv[0]);
  list.add(layer + "self_attn.v_proj.weight", kv[1]);
  list.add(layer + "self_attn.o_proj.weight", value("o"));
  list.add(layer + "mlp.gate_proj.weight", gate_up[0]);
  list.add(layer + "mlp.up_proj.weight", gate_up[1]);
  list.add(layer + "mlp.down_proj.weight", value("down"));
  list.add(layer + "post_attention_layernorm.weight", value("post_norm"));
}

void add_vocabulary(const HeadExport& head, TensorList& list) {
  if (head.draft_vocabulary.empty()) {
    if (head.shape.kind == HeadKind::eagle3) list.add("lm_head.weight", head.target.output);
    return;
  }
  std::vector<std::int64_t> ids(head.draft_vocabulary.begin(), head.draft_vocabulary.end());
  const Tensor rows = torch::tensor(ids, torch::kLong);
  list.add("lm_head.weight",
           head.target.output.index_select(0, rows.to(head.target.output.device())));
  list.keep("d2t", StorageType::i64, rows - torch::arange(rows.size(0), torch::kLong));
  Tensor used = torch::zeros({head.config.vocabulary}, torch::kBool);
  used.index_fill_(0, rows, true);
  list.keep("t2d", StorageType::boolean, used);
}

Json configuration(const HeadExport& head, const std::vector<int>& tap_layers) {
  const ModelConfig& target = head.config;
  const int drafted = head.draft_vocabulary.empty()
                          ? target.vocabulary
                          : static_cast<int>(head.draft_vocabulary.size());
  if (head.shape.kind == HeadKind::medusa) {
    return {{"model_type", "medusa"},
            {"architectures", {"MedusaModel"}},
            {"medusa_num_heads", head.shape.medusa_heads},
            {"medusa_num_layers", head.shape.medusa_layers},
            {"hidden_size", target.hidden},
            {"vocab_size", target.vocabulary},
            {"draft_vocab_size", drafted},
            {"base_model_name_or_path", head.origin.value("target", "")},
            {"talon", head.origin}};
  }
  Json config = {{"model_type", "llama"},
                 {"architectures", {"LlamaForCausalLM"}},
                 {"num_hidden_layers", 1},
                 {"hidden_size", target.hidden},
                 {"intermediate_size", head.shape.intermediate},
                 {"num_attention_heads", target.heads},
                 {"num_key_value_heads", target.kv_heads},
                 {"head_dim", target.head_dim},
                 {"hidden_act", "silu"},
                 {"rms_norm_eps", head.shape.norm_epsilon},
                 {"rope_theta", target.rope.base},
                 {"max_position_embeddings", kContext},
                 {"vocab_size", target.vocabulary},
                 {"draft_vocab_size", drafted},
                 {"bias", head.shape.kind == HeadKind::eagle},
                 {"tie_word_embeddings", false},
                 {"torch_dtype", "float16"},
                 {"talon", head.origin}};
  if (head.shape.kind == HeadKind::eagle3) config["tap_layers"] = tap_layers;
  return config;
}

}  // namespace

void export_head(const HeadExport& head, const std::filesystem::path& folder) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) fail("export head: cannot make {}: {}", folder.string(), problem.message());
  TensorList list;
  if (head.shape.kind == HeadKind::medusa) {
    for (const std::string& name : head.parameters.names())
      list.add(name, head.parameters.part(head.values, name));
  } else {
    add_layer(head, list);
  }
  add_vocabulary(head, list);
  write_safetensors(folder / "model.safetensors", list.all(), {{"format", "pt"}});
  const std::string config =
      configuration(head, head.origin.value("tap_layers", std::vector<int>{})).dump(2) + "\n";
  write_file(folder / "config.json", std::as_bytes(std::span(config)));
}

}  // namespace talon
