#include "train/head/export_head.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "core/error.h"
#include "draft/head/draft_vocabulary.h"
#include "draft/head/head_config.h"
#include "draft/head/head_tensors.h"
#include "io/atomic_file.h"
#include "io/checkpoint.h"
#include "io/formats/write_safetensors.h"
#include "model/rotary_order.h"

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

/// A tensor of the file: one of `parts` equal blocks of rows of a parameter.
struct FileTensor {
  std::string name;
  std::string parameter;
  int part = 0, parts = 1;

  /// Rows of queries and keys turn in pairs.
  bool turns() const { return name.ends_with("q_proj.weight") || name.ends_with("k_proj.weight"); }
  Tensor of(const Tensor& parameter_values) const {
    return parameter_values.chunk(parts, 0)[static_cast<std::size_t>(part)];
  }
};

/// An ordinary layer; its names in the file begin with `layer`, those of its parameters with
/// `prefix`.
void add_layer(const std::string& layer, const std::string& prefix,
               std::vector<FileTensor>& tensors) {
  tensors.push_back({layer + "input_layernorm.weight", prefix + "input_norm"});
  tensors.push_back({layer + "self_attn.q_proj.weight", prefix + "q"});
  tensors.push_back({layer + "self_attn.k_proj.weight", prefix + "kv", 0, 2});
  tensors.push_back({layer + "self_attn.v_proj.weight", prefix + "kv", 1, 2});
  tensors.push_back({layer + "self_attn.o_proj.weight", prefix + "o"});
  tensors.push_back({layer + "mlp.gate_proj.weight", prefix + "gate_up", 0, 2});
  tensors.push_back({layer + "mlp.up_proj.weight", prefix + "gate_up", 1, 2});
  tensors.push_back({layer + "mlp.down_proj.weight", prefix + "down"});
  tensors.push_back({layer + "post_attention_layernorm.weight", prefix + "post_norm"});
}

/// Those of a layer and what is around it, in the file's order.
std::vector<FileTensor> file_tensors(const HeadShape& shape, const ParameterStore& parameters) {
  std::vector<FileTensor> tensors;
  if (shape.kind == HeadKind::medusa) {
    for (const std::string& name : parameters.names()) tensors.push_back({name, name});
    return tensors;
  }
  if (shape.kind == HeadKind::draft) {
    for (int i = 0; i < shape.layers; ++i)
      add_layer(fmt::format("model.layers.{}.", i), fmt::format("{}.", i), tensors);
    tensors.push_back({"model.norm.weight", "output_norm"});
    return tensors;
  }
  tensors.push_back({"fc.weight", "fc"});
  if (shape.kind == HeadKind::dflash) {
    tensors.push_back({"hidden_norm.weight", "context_norm"});
    tensors.push_back({"norm.weight", "output_norm"});
    for (int i = 0; i < shape.layers; ++i)
      add_layer(fmt::format("layers.{}.", i), fmt::format("{}.", i), tensors);
    for (int i = 0; i < shape.layers; ++i) {
      for (const char* norm : {"q_norm", "k_norm"}) {
        tensors.push_back(
            {fmt::format("layers.{}.self_attn.{}.weight", i, norm), fmt::format("{}.{}", i, norm)});
      }
    }
    return tensors;
  }
  const bool eagle3 = reads_taps(shape.kind);
  const std::string layer = shape.kind == HeadKind::eagle3 ? "midlayer." : "layers.0.";
  if (shape.kind == HeadKind::peagle) {
    tensors.push_back({"mask_hidden", "mask_features"});
    for (int i = 1; i < shape.layers; ++i)
      add_layer(fmt::format("layers.{}.", i), fmt::format("{}.", i), tensors);
  }
  if (eagle3) {
    tensors.push_back({layer + "input_layernorm.weight", "embedding_norm"});
    tensors.push_back({layer + "hidden_norm.weight", "feature_norm"});
    tensors.push_back({"norm.weight", "output_norm"});
  } else {
    tensors.push_back({"fc.bias", "fc_bias"});
  }
  tensors.push_back({layer + "self_attn.q_proj.weight", "q"});
  tensors.push_back({layer + "self_attn.k_proj.weight", "kv", 0, 2});
  tensors.push_back({layer + "self_attn.v_proj.weight", "kv", 1, 2});
  tensors.push_back({layer + "self_attn.o_proj.weight", "o"});
  tensors.push_back({layer + "mlp.gate_proj.weight", "gate_up", 0, 2});
  tensors.push_back({layer + "mlp.up_proj.weight", "gate_up", 1, 2});
  tensors.push_back({layer + "mlp.down_proj.weight", "down"});
  tensors.push_back({layer + "post_attention_layernorm.weight", "post_norm"});
  return tensors;
}

/// EAGLE-3's fc, its columns of tap i times scale_of(i): the file has it of unscaled taps, to the
/// stream's own scale.
template <typename ScaleOf>
Tensor scaled_fc(const HeadShape& shape, const Tensor& fc, ScaleOf scale_of) {
  std::vector<Tensor> blocks = fc.chunk(shape.taps, 1);
  for (std::size_t tap = 0; tap < blocks.size(); ++tap) blocks[tap] = blocks[tap] * scale_of(tap);
  return at::cat(blocks, 1);
}

bool has_scaled_fc(const HeadShape& shape, const FileTensor& tensor) {
  return reads_taps(shape.kind) && tensor.parameter == "fc";
}

/// Rows of heads in another order of their pairs (rotary_order.h).
template <typename Order>
Tensor ordered(const Tensor& rows, const HeadShape& shape, Order order) {
  const int heads = static_cast<int>(rows.size(0)) / shape.head_dim;
  return rows.index_select(0, torch::tensor(order(heads, shape.head_dim)).to(rows.device()));
}

/// The features of masks stand beside taps that are not scaled.
bool is_mask(const FileTensor& tensor) { return tensor.parameter == "mask_features"; }

/// Whether a draft model's output matrix is that of its embeddings.
bool is_tied(const ModelConfig& target) {
  return target.tied_output && target.embedding_scale == 1 && target.logit_scale == 1;
}

/// A draft model's files hold what it shares with its target, too.
void add_tables(const HeadExport& head, TensorList& list) {
  list.add("model.embed_tokens.weight", head.target.embedding * head.target.embedding_scale);
  if (!is_tied(head.config)) list.add("lm_head.weight", head.target.output);
}

void add_vocabulary(const HeadExport& head, TensorList& list) {
  if (head.shape.kind == HeadKind::draft) return add_tables(head, list);
  if (head.draft_vocabulary.empty()) {
    const bool own = reads_taps(head.shape.kind) && head.shape.kind != HeadKind::dflash;
    // The target's own rows, which other heads draft with, lack its scale.
    if (own || head.config.logit_scale != 1) list.add("lm_head.weight", head.target.output);
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

/// z-lab's layout, which counts layers whose outputs are tapped.
Json dflash_keys(const HeadExport& head, const std::vector<int>& tap_layers, Json config) {
  Json ids = Json::array();
  for (const int tap : tap_layers) ids.push_back(tap - 1);
  config["model_type"] = "qwen3";
  config["architectures"] = {"DFlashDraftModel"};
  config["num_hidden_layers"] = head.shape.layers;
  config["layer_types"] =
      std::vector<std::string>(static_cast<std::size_t>(head.shape.layers), "full_attention");
  config["attention_bias"] = false;
  config["block_size"] = head.places + 1;
  config["num_target_layers"] = head.config.layers;
  config["dflash_config"] = {{"mask_token_id", head.shape.mask_token}, {"target_layer_ids", ids}};
  return config;
}

/// That of any model.
Json draft_keys(const HeadExport& head, Json config) {
  config["num_hidden_layers"] = head.shape.layers;
  config["max_position_embeddings"] = head.config.context;
  config["tie_word_embeddings"] = is_tied(head.config);
  config["attention_bias"] = false;
  config.erase("draft_vocab_size");
  config.erase("bias");
  return config;
}

/// speculators' layout, which counts layers whose inputs are tapped.
Json peagle_keys(const HeadExport& head, const std::vector<int>& tap_layers, Json layer) {
  layer["num_hidden_layers"] = head.shape.layers;
  const Json origin = layer["talon"];
  layer.erase("talon");
  layer.erase("bias");
  return {{"architectures", {"PEagleSpeculator"}},
          {"speculators_model_type", "peagle"},
          {"draft_vocab_size", layer["draft_vocab_size"]},
          {"eagle_aux_hidden_state_layer_ids", tap_layers},
          {"mask_token_id", head.shape.mask_token},
          {"norm_before_residual", false},
          {"speculators_config",
           {{"algorithm", "peagle"},
            {"proposal_methods",
             {{{"proposal_type", "greedy"}, {"speculative_tokens", head.places}}}}}},
          {"transformer_layer_config", layer},
          {"talon", origin}};
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
  if (head.shape.kind == HeadKind::draft) return draft_keys(head, config);
  if (head.shape.kind == HeadKind::dflash) return dflash_keys(head, tap_layers, config);
  if (head.shape.kind == HeadKind::peagle) return peagle_keys(head, tap_layers, config);
  return config;
}

}  // namespace

void export_head(const HeadExport& head, const std::filesystem::path& folder) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) fail("export head: cannot make {}: {}", folder.string(), problem.message());
  TensorList list;
  const HeadShape& shape = head.shape;
  for (const FileTensor& tensor : file_tensors(shape, head.parameters)) {
    Tensor value = tensor.of(head.parameters.part(head.values, tensor.parameter));
    if (has_scaled_fc(shape, tensor)) {
      value = scaled_fc(shape, value,
                        [&](std::size_t tap) { return shape.stream_scale / shape.tap_scale[tap]; });
    }
    if (is_mask(tensor)) {
      value = scaled_fc(shape, value, [&](std::size_t tap) { return shape.tap_scale[tap]; });
      value = value.unsqueeze(0);
    }
    if (shape.pairwise && tensor.turns()) value = ordered(value, shape, pairwise_order);
    list.add(tensor.name, value);
  }
  add_vocabulary(head, list);
  write_safetensors(folder / "model.safetensors", list.all(), {{"format", "pt"}});
  Json config = configuration(head, head.origin.value("tap_layers", std::vector<int>{}));
  // Losses compare the head's plain logits with the target's, which are capped.
  const bool is_model = shape.kind == HeadKind::draft;
  if (!is_model && head.config.logit_cap > 0) config["final_logit_softcapping"] = 0;
  const std::string text = config.dump(2) + "\n";
  write_file(folder / "config.json", std::as_bytes(std::span(text)));
}

namespace {

/// A head to start from: an EAGLE head in any layout that drafts, another as export_head() wrote
/// it.
class ImportedHead {
 public:
  ImportedHead(const std::filesystem::path& path, const HeadShape& shape)
      : doing_(fmt::format("import head {}", path.string())),
        checkpoint_(open_checkpoint(path)),
        shape_(shape) {
    if (shape.kind == HeadKind::eagle || shape.kind == HeadKind::eagle3) {
      tensors_.emplace(checkpoint_);
    }
  }

  /// float32, in the shape of `like`.
  Tensor values(const std::string& name, const Tensor& like) const {
    const StoredTensor& stored = find(name);
    if (stored.shape != std::vector(like.sizes().begin(), like.sizes().end())) {
      fail("{}: tensor \"{}\": expected the shape of the head to train, {}, found {}", doing_,
           stored.name, fmt::join(like.sizes(), " x "), fmt::join(stored.shape, " x "));
    }
    const Tensor values = torch::empty(like.sizes(), torch::kFloat);
    dequantize(stored.type, stored.bytes,
               std::span(values.data_ptr<float>(), static_cast<std::size_t>(values.numel())));
    return values;
  }

  /// Whether pairs that turn lie beside each other.
  bool is_pairwise() const {
    return checkpoint_.format == CheckpointFormat::gguf || shape_.pairwise;
  }

  /// Throws Error for parts that the head to train does not have.
  void refuse_others() const {
    if (!tensors_) return;
    for (const char* known : {"embed_tokens.weight", "lm_head.weight", "d2t", "t2d", "token_map"}) {
      tensors_->find(known);
    }
    tensors_->refuse_unknown();
  }

 private:
  const StoredTensor& find(const std::string& name) const {
    if (!tensors_) return checkpoint_.require(name);
    return tensors_->require(common_head_name(name).value_or(name));
  }

  std::string doing_;
  Checkpoint checkpoint_;
  const HeadShape& shape_;
  std::optional<HeadTensors> tensors_;
};

}  // namespace

bool is_head_file(const std::filesystem::path& path) {
  return std::filesystem::is_directory(path) || path.extension() == ".gguf";
}

std::vector<TokenId> drafted_tokens(const std::filesystem::path& path, int target_vocabulary) {
  if (!is_head_file(path)) return {};
  const Checkpoint head = open_checkpoint(path);
  std::vector<TokenId> tokens = read_draft_vocabulary(HeadTensors(head), target_vocabulary);
  std::ranges::sort(tokens);
  return tokens;
}

void import_head(const std::filesystem::path& path, const HeadShape& shape,
                 ParameterStore& parameters) {
  const ImportedHead head(path, shape);
  const torch::NoGradGuard no_gradient;
  for (const FileTensor& tensor : file_tensors(shape, parameters)) {
    Tensor to = tensor.of(parameters.part(parameters.values(), tensor.parameter));
    if (is_mask(tensor)) to = to.unsqueeze(0);
    Tensor values = head.values(tensor.name, to);
    if (head.is_pairwise() && tensor.turns()) values = ordered(values, shape, half_split_order);
    if (has_scaled_fc(shape, tensor)) {
      values = scaled_fc(shape, values, [&](std::size_t tap) {
        return shape.tap_scale[tap] / shape.stream_scale;
      });
    }
    if (is_mask(tensor)) {
      values = scaled_fc(shape, values.squeeze(0), [&](std::size_t tap) {
                 return 1 / shape.tap_scale[tap];
               }).unsqueeze(0);
    }
    to.copy_(values);
  }
  head.refuse_others();
  parameters.refresh_low();
}

void check_form(const std::filesystem::path& path, HeadKind kind, const DatasetInfo& data,
                const ModelConfig& target) {
  const bool taps_layers = kind == HeadKind::eagle3 || kind == HeadKind::peagle;
  if (!taps_layers && kind != HeadKind::eagle) return;
  const std::string doing = fmt::format("import head {}", path.string());
  const Checkpoint checkpoint = open_checkpoint(path);
  const HeadConfig config = read_head_config(checkpoint, HeadTensors(checkpoint));
  const std::pair<const char*, bool> flags[] = {
      {"norm_before_residual", config.norm_before_residual}, {"norm_output", config.norm_output}};
  for (const auto& [key, is_set] : flags) {
    if (!is_set) continue;
    fail("{}: \"{}\": expected false, as heads are trained here, found true", doing, key);
  }
  if (config.activation != InputTransform::silu_gate)
    fail("{}: \"hidden_act\": expected silu, as heads are trained here, found another", doing);
  if (!taps_layers) return;
  const auto streams = std::span(data.taps).first(data.taps.size() - 1);  // then the last vector
  std::vector<int> layers = counted_taps(config, target.layers);
  if (layers.empty()) layers = usual_tap_layers(target.layers);
  if (std::ranges::equal(layers, streams)) return;
  fail("{}: tap layers: expected {}, as the data has, found {}", doing, fmt::join(streams, ", "),
       fmt::join(layers, ", "));
}

}  // namespace talon
