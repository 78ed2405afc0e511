#include <algorithm>
#include <iterator>
#include <string>

#include "core/error.h"
#include "io/json_text.h"
#include "model/config/config_keys.h"
#include "model/config/config_readers.h"
#include "model/config/quantization.h"

namespace talon {
namespace {

using Limits = ConfigLimits;

/// Without those that the model has not: defaults of classes lie behind the vocabularies of small
/// models.
std::vector<TokenId> known_tokens(const ConfigKeys& keys, std::string_view key, int vocabulary) {
  std::vector<TokenId> ids = keys.tokens(key, Limits::kVocabulary);
  std::erase_if(ids, [&](TokenId id) { return id >= vocabulary; });
  return ids;
}

/// The end tokens of generation_config.json, which for chat models lists more than config.json.
std::vector<TokenId> generation_end_tokens(const Checkpoint& checkpoint, int vocabulary) {
  const auto file = checkpoint.path / "generation_config.json";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return {};
  const MappedFile mapped(file);
  const Json json = parse_json(mapped.text(), fmt::format("read {}", file.string()));
  return known_tokens(ConfigKeys(json, file.string()), "eos_token_id", vocabulary);
}

void read_sizes(const ConfigKeys& keys, ModelConfig& config) {
  config.layers = keys.integer("num_hidden_layers", 1, Limits::kLayers);
  config.hidden = keys.integer("hidden_size", 1, Limits::kWidth);
  // Mixtures without a dense layer may lack the width of one.
  config.intermediate = keys.has("moe_intermediate_size")
                            ? keys.integer_or("intermediate_size", 1, Limits::kWidth, 1)
                            : keys.integer("intermediate_size", 1, Limits::kWidth);
  config.context = keys.integer("max_position_embeddings", 1, Limits::kContext);
  config.vocabulary = keys.integer("vocab_size", 1, Limits::kVocabulary);
  config.heads = keys.integer("num_attention_heads", 1, Limits::kHeads);
  config.kv_heads = keys.integer_or("num_key_value_heads", 1, Limits::kHeads, config.heads);
  // Heads of latents have sizes of their own.
  const bool is_divided = !keys.has("head_dim") && !keys.has("kv_lora_rank");
  if (is_divided && config.hidden % config.heads != 0) {
    keys.refuse("hidden_size", fmt::format("a multiple of {} heads", config.heads));
  }
  config.head_dim =
      keys.integer_or("head_dim", 1, Limits::kHeadDim, std::max(1, config.hidden / config.heads));
  double epsilon = 1e-6;
  for (const char* key : {"norm_eps", "layer_norm_eps", "norm_epsilon", "layer_norm_epsilon",
                          "layernorm_epsilon", "rms_norm_eps"}) {
    epsilon = keys.number_or(key, 0, 1, epsilon);
  }
  config.norm_epsilon = static_cast<float>(epsilon);
}

void read_tokens(const ConfigKeys& top, const ConfigKeys& keys, const Checkpoint& checkpoint,
                 ModelConfig& config) {
  const auto add = [&](const std::vector<TokenId>& ids) {
    auto& known = config.end_tokens;
    for (const TokenId id : ids) {
      if (std::find(known.begin(), known.end(), id) == known.end()) known.push_back(id);
    }
  };
  add(known_tokens(keys, "eos_token_id", config.vocabulary));
  add(known_tokens(top, "eos_token_id", config.vocabulary));
  add(generation_end_tokens(checkpoint, config.vocabulary));
  const auto start = known_tokens(keys, "bos_token_id", config.vocabulary);
  if (!start.empty()) config.start_token = start[0];
}

/// Where the tensors of the text model lie: published folders put one prefix before it, folders
/// saved again another.
void find_prefix(const Checkpoint& checkpoint, ModelConfig& config) {
  TensorForms& forms = config.forms;
  if (forms.prefix == "backbone." && checkpoint.find("model.embeddings.weight")) {
    forms.prefix = "model.";
  }
  if (forms.prefix != "model.") return;
  if (checkpoint.find("language_model.model.embed_tokens.weight")) {
    forms.prefix = "language_model.model.";
    forms.output = "language_model.lm_head.";
  } else if (checkpoint.find("model.language_model.embed_tokens.weight")) {
    forms.prefix = "model.language_model.";
  } else if (checkpoint.find("thinker.model.embed_tokens.weight")) {
    forms.prefix = "thinker.model.";
    forms.output = "thinker.lm_head.";
  }
}

/// A file without an output matrix reads its embeddings as one, where it does not say or says so of
/// the whole model and not of its text model.
void tie_without_output(const ConfigKeys& top, const ConfigKeys& keys, const Checkpoint& checkpoint,
                        ModelConfig& config) {
  constexpr std::string_view kTied = "tie_word_embeddings";
  const bool says = top.has(kTied) || keys.has(kTied);
  if (says && !top.flag_or(kTied, false)) return;
  const auto& tensors = checkpoint.tensors;
  const bool has_output = std::any_of(tensors.begin(), tensors.end(), [&](const auto& tensor) {
    return tensor.name.starts_with(config.forms.output);
  });
  if (!tensors.empty() && !has_output) config.tied_output = true;
}

void add_missing(const Json& defaults, Json& keys) {
  for (const auto& [key, value] : defaults.items()) {
    if (!keys.contains(key)) keys[key] = value;
  }
}

/// What the class of a model takes for keys that are missing, where most families take another:
/// files that transformers wrote leave such keys of a nested model out.
Json class_defaults(const Json& model_type) {
  static const Json kEpsilon = {{"rms_norm_eps", 1e-5}};
  static const Json kErnie = {
      {"rms_norm_eps", 1e-5}, {"rope_theta", 5e5}, {"tie_word_embeddings", true}};
  static const Json kGlm = {
      {"partial_rotary_factor", 0.5}, {"rms_norm_eps", 1.5625e-7}, {"attention_bias", true}};
  static const Json kLfm2 = {
      {"rope_theta", 1e6}, {"norm_eps", 1e-5}, {"tie_word_embeddings", true}};
  static const Json kHybrid = {{"partial_rotary_factor", 0.25}, {"linear_conv_kernel_dim", 4}};
  static const Json kGemma4Rope = {
      {"full_attention",
       {{"rope_type", "proportional"}, {"rope_theta", 1e6}, {"partial_rotary_factor", 0.25}}},
      {"sliding_attention", {{"rope_theta", 1e4}}}};
  static const Json kExaone = {{"rms_norm_eps", 1e-5}, {"sliding_window", 4096}};
  static const Json kGlmSeeing = {{"rms_norm_eps", 1e-5}, {"attention_bias", true}};
  static const Json kGlmSeeingMoe = {{"partial_rotary_factor", 0.5},
                                     {"rms_norm_eps", 1e-5},
                                     {"attention_bias", true},
                                     {"n_shared_experts", 1},
                                     {"first_k_dense_replace", 1}};
  static const Json kApertusRope = {{"rope_type", "llama3"},
                                    {"factor", 8},
                                    {"original_max_position_embeddings", 8192},
                                    {"low_freq_factor", 1},
                                    {"high_freq_factor", 4}};
  static const Json kMellumRope = {{"full_attention", {{"rope_theta", 5e5}}},
                                   {"sliding_attention", {{"rope_theta", 1e4}}}};
  static const Json kGptOssRope = {{"rope_type", "yarn"},
                                   {"factor", 32},
                                   {"truncate", false},
                                   {"original_max_position_embeddings", 4096}};
  static const Json kMinistralRope = {{"rope_type", "yarn"},
                                      {"rope_theta", 1e6},
                                      {"factor", 16},
                                      {"original_max_position_embeddings", 16384},
                                      {"mscale", 1},
                                      {"mscale_all_dim", 1},
                                      {"llama_4_scaling_beta", 0.1}};
  static const Json kMistral4Rope = {{"rope_type", "yarn"},
                                     {"rope_theta", 1e4},
                                     {"factor", 128},
                                     {"original_max_position_embeddings", 8192},
                                     {"mscale", 1},
                                     {"mscale_all_dim", 1},
                                     {"llama_4_scaling_beta", 0.1}};
  static const Json kDefaults = {
      {"mistral", {{"sliding_window", 4096}}},
      {"ministral", {{"sliding_window", 4096}}},
      {"ministral3", {{"rms_norm_eps", 1e-5}, {"rope_parameters", kMinistralRope}}},
      {"mistral4", {{"n_shared_experts", 1}, {"rope_parameters", kMistral4Rope}}},
      {"mixtral", {{"rope_theta", 1e6}, {"rms_norm_eps", 1e-5}}},
      {"phi3", {{"rms_norm_eps", 1e-5}, {"original_max_position_embeddings", 4096}}},
      {"phimoe", {{"rope_theta", 1e6}, {"rms_norm_eps", 1e-5}, {"num_experts_per_tok", 2}}},
      {"smollm3", {{"rope_theta", 2e6}}},
      {"hunyuan_v1_dense", kEpsilon},
      {"olmo2", kEpsilon},
      {"olmo3", {{"sliding_window", 4096}, {"rope_theta", 5e5}, {"rms_norm_eps", 1e-5}}},
      {"cohere", {{"layer_norm_eps", 1e-5}}},
      {"cohere2", {{"sliding_window", 4096}, {"layer_norm_eps", 1e-5}}},
      {"starcoder2", {{"norm_epsilon", 1e-5}}},
      {"stablelm", {{"partial_rotary_factor", 0.25}, {"layer_norm_eps", 1e-5}}},
      {"gpt_neox", {{"rotary_pct", 0.25}, {"layer_norm_eps", 1e-5}}},
      {"arcee", kEpsilon},
      {"nemotron", {{"partial_rotary_factor", 0.5}, {"norm_eps", 1e-5}}},
      {"phi", {{"partial_rotary_factor", 0.5}, {"layer_norm_eps", 1e-5}}},
      {"gemma", {{"head_dim", 256}}},
      {"gemma2",
       {{"sliding_window", 4096}, {"attn_logit_softcapping", 50}, {"final_logit_softcapping", 30}}},
      {"gemma3_text", {{"rope_theta", 1e6}, {"sliding_window", 4096}}},
      {"gemma4_text",
       {{"global_head_dim", 512},
        {"hidden_size_per_layer_input", 256},
        {"sliding_window", 512},
        {"rope_parameters", kGemma4Rope}}},
      {"gemma4_unified_text",
       {{"global_head_dim", 512}, {"sliding_window", 1024}, {"rope_parameters", kGemma4Rope}}},
      {"llama4_text",
       {{"rope_theta", 5e5},
        {"rms_norm_eps", 1e-5},
        {"attention_chunk_size", 8192},
        {"num_experts_per_tok", 1}}},
      {"gpt_oss",
       {{"rope_theta", 1.5e5},
        {"rms_norm_eps", 1e-5},
        {"sliding_window", 128},
        {"rope_parameters", kGptOssRope}}},
      {"glm", kGlm},
      {"glm4", kGlm},
      {"glm4_moe",
       {{"partial_rotary_factor", 0.5},
        {"rms_norm_eps", 1e-5},
        {"n_shared_experts", 1},
        {"first_k_dense_replace", 1}}},
      {"glm4v", kGlmSeeing},
      {"glm4v_text", kGlmSeeing},
      {"glm4v_moe", kGlmSeeingMoe},
      {"glm4v_moe_text", kGlmSeeingMoe},
      {"apertus",
       {{"rope_theta", 1.2e7}, {"rms_norm_eps", 1e-5}, {"rope_parameters", kApertusRope}}},
      {"internlm3", {{"head_dim", 128}, {"rms_norm_eps", 1e-5}}},
      {"iquestcoder", {{"head_dim", 128}, {"rms_norm_eps", 1e-5}}},
      {"minimax_m2", {{"rope_theta", 5e6}, {"head_dim", 128}}},
      {"hunyuan_v1_moe", kEpsilon},
      {"hy_v3", {{"rope_theta", 11158840}, {"head_dim", 128}, {"rms_norm_eps", 1e-5}}},
      {"exaone_moe",
       {{"rms_norm_eps", 1e-5}, {"sliding_window", 4096}, {"routed_scaling_factor", 2.5}}},
      {"dots1", {{"norm_topk_prob", false}, {"sliding_window", 4096}}},
      {"afmoe", {{"head_dim", 128}, {"rms_norm_eps", 1e-5}, {"sliding_window", 1024}}},
      {"solar_open",
       {{"rope_theta", 1e6}, {"head_dim", 128}, {"rms_norm_eps", 1e-5}, {"n_shared_experts", 1}}},
      {"mellum", {{"head_dim", 128}, {"sliding_window", 1024}, {"rope_parameters", kMellumRope}}},
      {"deepseek_v2", {{"n_shared_experts", 2}}},
      {"deepseek_v3",
       {{"routed_scaling_factor", 2.5},
        {"n_group", 8},
        {"topk_group", 4},
        {"n_shared_experts", 1},
        {"first_k_dense_replace", 3}}},
      {"qwen2_vl_text", {{"rope_theta", 1e6}, {"rms_norm_eps", 1e-5}}},
      {"qwen2_5_vl_text", {{"rope_theta", 1e6}, {"rms_norm_eps", 1e-5}}},
      {"qwen2_5_omni_text", {{"rope_theta", 1e6}}},
      {"qwen3_omni_moe_text", {{"rope_theta", 1e6}, {"norm_topk_prob", true}}},
      {"qwen3_vl_text", {{"rope_theta", 5e5}}},
      {"qwen3_vl_moe_text", {{"rope_theta", 5e5}}},
      {"exaone4", kExaone},
      {"exaone4_5", kExaone},
      {"exaone4_5_text", kExaone},
      {"seed_oss", {{"attention_bias", true}, {"head_dim", 128}}},
      {"ernie4_5", kErnie},
      {"ernie4_5_moe", kErnie},
      {"olmoe", kEpsilon},
      {"glm4_moe_lite",
       {{"rms_norm_eps", 1e-5},
        {"routed_scaling_factor", 1.8},
        {"n_shared_experts", 1},
        {"first_k_dense_replace", 1}}},
      {"mimo_v2_flash",
       {{"rope_theta", 5e6},
        {"partial_rotary_factor", 0.334},
        {"layernorm_epsilon", 1e-5},
        {"sliding_window", 129},
        {"v_head_dim", 128},
        {"attention_value_scale", 0.707}}},
      {"bamba", {{"partial_rotary_factor", 0.5}, {"rms_norm_eps", 1e-5}}},
      {"falcon_h1", {{"rms_norm_eps", 1e-5}, {"mamba_d_ssm", 1024}}},
      {"nemotron_h", {{"layer_norm_epsilon", 1e-5}, {"head_dim", 128}, {"num_key_value_heads", 8}}},
      {"lfm2", kLfm2},
      {"lfm2_moe", kLfm2},
      {"qwen3_next", kHybrid},
      {"qwen3_5_text", kHybrid},
      {"qwen3_5_moe_text", kHybrid}};
  return model_type.is_string() ? kDefaults.value(model_type.get<std::string>(), Json::object())
                                : Json::object();
}

/// Families whose heads may turn in part. The classes of the others pass over the key.
bool may_turn_in_part(std::string_view family) {
  return family.starts_with("phi") || family == "gpt_neox" || family == "stablelm" ||
         family == "nemotron" || family.starts_with("glm") || family.starts_with("gemma4") ||
         family.starts_with("qwen3_next") || family.starts_with("qwen3_5") ||
         family.starts_with("deepseek") || family == "kimi_k2" || family == "mistral4" ||
         family.starts_with("mimo") || family == "bamba" || family == "minimax_m2" ||
         family.starts_with("bailing");
}

/// Janus: the part of its Llama, whose keys may lack the defaults of their class, in the name of
/// the whole.
Json janus_model(const Json& config) {
  const auto nested = config.find("language_config");
  Json keys = nested != config.end() && nested->is_object() ? *nested : Json::object();
  keys["model_type"] = config["model_type"];
  if (config.contains("grid")) keys["grid"] = config["grid"];
  add_missing({{"hidden_size", 4096},
               {"intermediate_size", 11008},
               {"num_hidden_layers", 32},
               {"num_attention_heads", 32},
               {"max_position_embeddings", 2048}},
              keys);
  return keys;
}

/// Sizes of a text model's class, which some versions of transformers leave out where they save it
/// as a part of another model.
Json class_sizes(const Json& model_type) {
  static const Json kSizes = {{"gemma3_text",
                               {{"hidden_size", 2304},
                                {"intermediate_size", 9216},
                                {"num_hidden_layers", 26},
                                {"num_attention_heads", 8},
                                {"num_key_value_heads", 4},
                                {"head_dim", 256},
                                {"vocab_size", 262208},
                                {"max_position_embeddings", 131072},
                                {"query_pre_attn_scalar", 256}}},
                              {"llama",
                               {{"hidden_size", 4096},
                                {"intermediate_size", 11008},
                                {"num_hidden_layers", 32},
                                {"num_attention_heads", 32},
                                {"vocab_size", 32000},
                                {"max_position_embeddings", 2048}}},
                              {"mistral",
                               {{"hidden_size", 4096},
                                {"intermediate_size", 14336},
                                {"num_hidden_layers", 32},
                                {"num_attention_heads", 32},
                                {"num_key_value_heads", 8},
                                {"vocab_size", 32000},
                                {"max_position_embeddings", 131072}}},
                              {"qwen2",
                               {{"hidden_size", 4096},
                                {"intermediate_size", 22016},
                                {"num_hidden_layers", 32},
                                {"num_attention_heads", 32},
                                {"num_key_value_heads", 32},
                                {"vocab_size", 151936},
                                {"max_position_embeddings", 32768}}},
                              {"llama4_text",
                               {{"hidden_size", 5120},
                                {"intermediate_size", 8192},
                                {"intermediate_size_mlp", 16384},
                                {"num_hidden_layers", 48},
                                {"num_attention_heads", 40},
                                {"num_key_value_heads", 8},
                                {"head_dim", 128},
                                {"vocab_size", 202048},
                                {"max_position_embeddings", 131072},
                                {"num_local_experts", 16}}}};
  return model_type.is_string() ? kSizes.value(model_type.get<std::string>(), Json::object())
                                : Json::object();
}

/// What writes text in models that hear and speak, too.
const Json& thinker_of(const Json& config) {
  const auto thinker = config.find("thinker_config");
  return thinker != config.end() && thinker->is_object() ? *thinker : config;
}

/// LFM2's first folders give two keys other names, which its class reads first. Later ones of
/// Nemotron-H list their layers and do not count them.
void rename_first_keys(Json& text) {
  constexpr const char* kLayers = "num_hidden_layers";
  const Json type = text.value("model_type", Json());
  const auto rename = [&](const char* first, const char* later) {
    const Json value = text.value(first, Json());
    if (!value.is_null()) text[later] = value;
  };
  if (type == "nemotron_h" && !text.contains(kLayers)) {
    const Json list = text.value("layers_block_type", text.value("layer_types", Json()));
    if (list.is_array()) text[kLayers] = list.size();
  }
  if (type == "lfm2") rename("block_ff_dim", "intermediate_size");
  if (type == "lfm2" || type == "lfm2_moe") rename("tie_embedding", "tie_word_embeddings");
}

/// The keys of the text model.
Json text_model(const Json& model) {
  if (!model.is_object()) return model;
  const Json& config = thinker_of(model);
  if (config.value("model_type", Json()) == "multi_modality") return janus_model(config);
  const auto nested = config.find("text_config");
  const bool is_nested = nested != config.end() && nested->is_object();
  Json text = is_nested ? *nested : config;
  rename_first_keys(text);
  const Json type = text.value("model_type", Json());
  Json defaults = class_defaults(type);
  if (text.contains("rope_scaling")) defaults.erase("rope_parameters");  // the older spelling
  add_missing(defaults, text);
  if (is_nested) add_missing(class_sizes(type), text);
  return text;
}

/// Whether the feed-forward network has biases. The classes of most families pass over the key.
bool read_mlp_bias(const ConfigKeys& top, const ConfigKeys& keys, std::string_view family) {
  constexpr std::string_view kKey = "mlp_bias";
  constexpr std::string_view kFamilies[] = {"llama", "arcee", "nemotron", "internlm3",
                                            "iquestcoder"};
  const bool known = std::ranges::find(kFamilies, family) != std::end(kFamilies);
  for (const ConfigKeys* place : {&keys, &top}) {
    if (!place->flag_or(kKey, false)) continue;
    if (known && place == &keys) return true;
    place->refuse(kKey, fmt::format("false, as networks of {} have no biases", family));
  }
  return false;
}

/// What single layers have otherwise than the others is read of Gemma 4's heads alone.
void refuse_own_layers(const ConfigKeys& keys, std::string_view family) {
  constexpr std::string_view kKey = "per_layer_config";
  const Json* layers = keys.find(kKey);
  if (!layers || layers->empty() || family.starts_with("gemma4")) return;
  keys.refuse(kKey, fmt::format("nothing: layers of {} are alike", family));
}

}  // namespace

ModelConfig read_hugging_face_config(const Checkpoint& checkpoint) {
  const ConfigKeys top(checkpoint.metadata, (checkpoint.path / "config.json").string());
  read_quantization(top);  // refuses what is not known
  const Json text = text_model(checkpoint.metadata);
  const ConfigKeys keys(text, (checkpoint.path / "config.json").string());
  read_quantization(keys);
  ModelConfig config;
  config.architecture = keys.has("model_type") ? keys.text("model_type") : top.text("model_type");
  const FamilyReader read_family = hugging_face_family(config.architecture);
  if (!read_family) keys.refuse("model_type", hugging_face_families());
  refuse_own_layers(keys, config.architecture);
  read_sizes(keys, config);
  config.rope = read_rope_of(keys, config.context, config.head_dim, "full_attention");
  if (config.rope.rotary > 0 && !may_turn_in_part(config.architecture)) {
    constexpr std::string_view kPart = "partial_rotary_factor";
    const auto rope = keys.object("rope_parameters");
    (rope && rope->has(kPart) ? *rope : keys)
        .refuse(kPart, fmt::format("1, as heads of {} turn whole", config.architecture));
  }
  if (config.rope.scaling == RopeConfig::Scaling::yarn) {
    const double stretched = config.rope.original_context * config.rope.factor;
    config.context =
        std::max(config.context, static_cast<int>(std::min<double>(stretched, Limits::kContext)));
  }
  config.qkv_bias = config.output_bias = keys.flag_or("attention_bias", false);
  config.tied_output =
      keys.flag_or("tie_word_embeddings", top.flag_or("tie_word_embeddings", false));
  read_tokens(top, keys, checkpoint, config);
  plan_alike(config);
  const bool mlp_bias = read_mlp_bias(top, keys, config.architecture);
  for (LayerPlan& plan : config.plans) plan.mlp_bias = mlp_bias;
  read_family(keys, config);
  find_prefix(checkpoint, config);
  tie_without_output(top, keys, checkpoint, config);
  if (config.image) count_codes(checkpoint, config);
  return config;
}

}  // namespace talon
