#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "core/error.h"
#include "io/quote.h"
#include "model/config/config_readers.h"

// Autoregressive image models in the layout of LlamaGen (arXiv:2406.06525).
namespace talon {
namespace {

using Limits = ConfigLimits;

constexpr std::string_view kClasses = "cls_embedding.embedding_table.weight";
constexpr std::string_view kNullCaption = "cls_embedding.uncond_embedding";
constexpr std::string_view kLantern = "model.";  // before all names of LANTERN's folders
constexpr int kMostSide = 256;                   // of a grid, in cells

/// Rows or columns of a matrix, within bounds.
int size_of(const Checkpoint& checkpoint, const std::string& name, std::size_t dimension,
            int most) {
  const StoredTensor& tensor = checkpoint.require(name);
  if (tensor.shape.size() != 2 || tensor.shape[dimension] < 1 || tensor.shape[dimension] > most) {
    fail("load {} {}: expected a matrix with 1 to {} {}, found [{}]",
         quote(checkpoint.path.string()), quote(name), most, dimension == 0 ? "rows" : "columns",
         fmt::join(tensor.shape, ", "));
  }
  return static_cast<int>(tensor.shape[dimension]);
}

/// The sizes of heads of the published models; a file does not tell them.
int published_head_size(int hidden) {
  if (hidden == 3200) return 100;
  return hidden == 4096 ? 128 : 64;
}

/// The side of the grid: what the caller has put beside the tensors, or what the file's name says
/// of the pictures' pixels.
int published_grid(const Checkpoint& checkpoint) {
  if (checkpoint.metadata.contains("grid")) {
    return ConfigKeys(checkpoint.metadata, checkpoint.path.string()).integer("grid", 1, kMostSide);
  }
  const std::string name = checkpoint.path.filename().string();
  for (const std::string_view pixels : {"256", "384", "512"}) {
    if (name.find(pixels) != name.npos) return std::stoi(std::string(pixels)) / 16;
  }
  fail(
      "load {}: expected the pixels of a picture's side in the file's name, 256, 384 or 512, or "
      "the cells of its side (--cells), found neither",
      quote(checkpoint.path.string()));
}

/// name: of a tensor that every layer has, "{}" its number.
int count_layers(const Checkpoint& checkpoint, std::string_view name) {
  int layers = 0;
  while (layers <= Limits::kLayers && checkpoint.find(fmt::format(fmt::runtime(name), layers)))
    ++layers;
  if (layers < 1 || layers > Limits::kLayers) {
    fail("load {}: expected 1 to {} layers, found {}", quote(checkpoint.path.string()),
         Limits::kLayers, layers);
  }
  return layers;
}

/// Prompts of captions: rows of features, or of what stands for no caption (the guide's), from the
/// end of which a guide takes as many as the caption has. Padding before a caption is masked and
/// has no position, so leaving it out changes nothing.
void read_captions(const Checkpoint& checkpoint, std::string_view prefix, int side,
                   ModelConfig& config) {
  const std::string name = std::string(prefix) + std::string(kNullCaption);
  const int rows = size_of(checkpoint, name, 0, Limits::kContext / 2);
  size_of(checkpoint, name, 1, Limits::kWidth);
  config.inputs = config.vocabulary + rows;
  config.image = {side, side, ImagePlan::Prompt::caption, rows};
}

/// Llama's and Chameleon's makers have files of their own, with some of LlamaGen's names.
void refuse_others(const Checkpoint& checkpoint) {
  const std::string separate = "layers.0.attention.wq.weight";
  if (!checkpoint.find(separate)) return;
  fail(
      "load {}: expected a file of LlamaGen, with \"layers.0.attention.wqkv.weight\", or the "
      "folder with config.json that transformers' scripts make of the files of Llama and "
      "Chameleon, found {}",
      quote(checkpoint.path.string()), quote(separate));
}

/// Sizes that only the tensors tell.
void read_published(const Checkpoint& checkpoint, ModelConfig& config) {
  refuse_others(checkpoint);
  const std::string embedding = "tok_embeddings.weight", first = "layers.0.";
  config.vocabulary = size_of(checkpoint, embedding, 0, Limits::kVocabulary);
  config.hidden = size_of(checkpoint, embedding, 1, Limits::kWidth);
  config.layers = count_layers(checkpoint, "layers.{}.attention.wqkv.weight");
  config.intermediate = size_of(checkpoint, first + "feed_forward.w1.weight", 0, Limits::kWidth);
  config.head_dim = published_head_size(config.hidden);
  if (config.hidden % config.head_dim != 0) {
    fail("load {}: expected heads of {}, found a width of {}", quote(checkpoint.path.string()),
         config.head_dim, config.hidden);
  }
  config.heads = config.hidden / config.head_dim;
  const std::string joined = first + "attention.wqkv.weight";
  const int kv_rows = size_of(checkpoint, joined, 0, 3 * Limits::kWidth) - config.hidden;
  if (kv_rows < 1 || kv_rows % (2 * config.head_dim) != 0) {
    fail(
        "load {} {}: expected queries of {} rows, then as many keys as values in heads of {}, "
        "found {} rows",
        quote(checkpoint.path.string()), quote(joined), config.hidden, config.head_dim,
        kv_rows + config.hidden);
  }
  config.kv_heads = kv_rows / (2 * config.head_dim);
  config.norm_epsilon = 1e-5F;
  config.rope.prompt_vanishes = true;
  config.forms.fused_qkv = true;
  const int side = published_grid(checkpoint);
  if (checkpoint.find(kNullCaption) != nullptr) return read_captions(checkpoint, "", side, config);
  config.inputs =
      config.vocabulary + size_of(checkpoint, std::string(kClasses), 0, Limits::kVocabulary);
  config.image = {side, side, ImagePlan::Prompt::class_number, 1};
}

/// The cells of a side of a folder of LANTERN's.
int lantern_side(const ConfigKeys& keys) {
  if (keys.has("grid")) return keys.integer("grid", 1, kMostSide);
  const int cells = keys.integer("block_size", 1, kMostSide * kMostSide);
  int side = 1;
  while (side * side < cells) ++side;
  if (side * side != cells) keys.refuse("block_size", "the cells of a square");
  return side;
}

/// LANTERN's conversion of LlamaGen (arXiv:2410.03355): Llama's names, pairs that turn still
/// interleaved. Sizes come from the tensors.
void read_lantern(const Checkpoint& checkpoint, ModelConfig& config) {
  const ConfigKeys keys(checkpoint.metadata, (checkpoint.path / "config.json").string());
  const std::string prefix(kLantern), embedding = prefix + "embed_tokens.weight";
  const std::string first = prefix + "layers.0.";
  config.vocabulary = size_of(checkpoint, embedding, 0, Limits::kVocabulary);
  config.hidden = size_of(checkpoint, embedding, 1, Limits::kWidth);
  config.layers = count_layers(checkpoint, "model.layers.{}.self_attn.q_proj.weight");
  config.intermediate = size_of(checkpoint, first + "mlp.gate_proj.weight", 0, Limits::kWidth);
  const int usual = std::max(1, config.hidden / published_head_size(config.hidden));
  config.heads = keys.integer_or("num_attention_heads", 1, Limits::kHeads, usual);
  if (config.hidden % config.heads != 0) {
    keys.refuse("num_attention_heads", fmt::format("a divisor of the width {}", config.hidden));
  }
  config.head_dim = config.hidden / config.heads;
  const std::string k = first + "self_attn.k_proj.weight";
  const int kv_rows = size_of(checkpoint, k, 0, Limits::kWidth);
  if (kv_rows % config.head_dim != 0) {
    fail("load {} {}: expected heads of {} rows, found {} rows", quote(checkpoint.path.string()),
         quote(k), config.head_dim, kv_rows);
  }
  config.kv_heads = kv_rows / config.head_dim;
  config.norm_epsilon = static_cast<float>(keys.number_or("rms_norm_eps", 0, 1, 1e-5));
  config.rope.base = keys.number_or("rope_base", 1, 1e12, config.rope.base);
  config.rope.prompt_vanishes = true;
  if (keys.text_or("input_type", "t2i") != "t2i") keys.refuse("input_type", "t2i");
  read_captions(checkpoint, prefix, lantern_side(keys), config);
  const int rows = config.image->prompt_tokens;
  if (keys.integer_or("cls_token_num", 1, Limits::kContext, rows) != rows)
    keys.refuse("cls_token_num", fmt::format("the {} rows of {}", rows, kNullCaption));
  const int width = size_of(checkpoint, prefix + std::string(kNullCaption), 1, Limits::kWidth);
  if (keys.integer_or("caption_dim", 1, Limits::kWidth, width) != width)
    keys.refuse("caption_dim", fmt::format("the {} columns of {}", width, kNullCaption));
}

bool is_lantern(const Checkpoint& checkpoint) {
  return checkpoint.find(std::string(kLantern) + std::string(kNullCaption)) != nullptr;
}

/// The folder that `talon train image model` writes says all sizes.
void read_folder(const Checkpoint& checkpoint, ModelConfig& config) {
  const ConfigKeys keys(checkpoint.metadata, (checkpoint.path / "config.json").string());
  config.vocabulary = keys.integer("vocab_size", 1, Limits::kVocabulary);
  config.hidden = keys.integer("hidden_size", 1, Limits::kWidth);
  config.inputs = config.vocabulary + keys.integer("prompt_rows", 1, Limits::kVocabulary);
  config.layers = keys.integer("num_hidden_layers", 1, Limits::kLayers);
  const auto has_layer = [&](int layer) {
    return checkpoint.find(fmt::format("layers.{}.attention.wqkv.weight", layer)) != nullptr;
  };
  if (!has_layer(config.layers - 1) || has_layer(config.layers))
    keys.refuse("num_hidden_layers", "as many layers as the tensors have");
  config.intermediate = keys.integer("intermediate_size", 1, Limits::kWidth);
  config.heads = config.kv_heads = keys.integer("num_attention_heads", 1, Limits::kHeads);
  if (config.hidden % config.heads != 0) {
    keys.refuse("hidden_size", fmt::format("a multiple of the {} heads", config.heads));
  }
  config.head_dim = config.hidden / config.heads;
  config.norm_epsilon = static_cast<float>(keys.number("rms_norm_eps", 0, 1));
  config.rope.base = keys.number_or("rope_theta", 1, 1e12, config.rope.base);
  const std::string rotation = keys.text("prefix_rotation");
  if (rotation != "zero" && rotation != "identity") {
    keys.refuse("prefix_rotation", "zero or identity");
  }
  config.rope.prompt_vanishes = rotation == "zero";
  config.forms.fused_qkv = true;
  const std::vector<int> grid = keys.integers("grid", 1, kMostSide, 2);
  if (grid.empty()) keys.refuse("grid", "[rows, columns]");
  config.image = {grid[0], grid[1], ImagePlan::Prompt::words,
                  keys.integer("prefix_rows", 1, Limits::kContext / 2)};
}

}  // namespace

bool is_llamagen(const Checkpoint& checkpoint) {
  if (checkpoint.format == CheckpointFormat::hugging_face) {
    return is_lantern(checkpoint) ||
           (checkpoint.metadata.is_object() &&
            checkpoint.metadata.value("model_type", Json()) == "llamagen");
  }
  const bool may_be = checkpoint.format == CheckpointFormat::torch_bin ||
                      checkpoint.format == CheckpointFormat::safetensors;
  return may_be && checkpoint.find("tok_embeddings.weight") != nullptr;
}

ModelConfig read_llamagen_config(const Checkpoint& checkpoint) {
  ModelConfig config;
  config.architecture = "llamagen";
  if (checkpoint.format == CheckpointFormat::hugging_face && is_lantern(checkpoint)) {
    read_lantern(checkpoint, config);
  } else if (checkpoint.format == CheckpointFormat::hugging_face) {
    read_folder(checkpoint, config);
  } else {
    read_published(checkpoint, config);
  }
  if (config.head_dim % 4 != 0) {
    fail("load {}: expected heads of a multiple of 4, which turn by row and column, found {}",
         quote(checkpoint.path.string()), config.head_dim);
  }
  config.rope.grid_columns = config.image->columns;
  config.context = config.image->prompt_tokens + config.image->cells();
  config.interleaved_rope = true;
  plan_alike(config);
  return config;
}

}  // namespace talon
