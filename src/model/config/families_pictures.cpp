#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "core/error.h"
#include "io/quote.h"
#include "model/config/family_helpers.h"

// Language models that draw: their pictures are tokens of the same sequence as texts.
namespace talon {
namespace {

using Limits = ConfigLimits;
using Prompt = ImagePlan::Prompt;

constexpr int kMostSide = 256;     // of a grid, in cells
constexpr int kFewestPrompts = 8;  // tokens that a context must leave to prompts
constexpr int kSizeCells = 2;      // Lumina-mGPT: sizes are told in steps of so many cells
constexpr int kCellPixels = 16;

/// The ids of Chameleon's published vocabulary.
struct ChameleonIds {
  TokenId first_code = 4, codes = 8192;
  TokenId text_start = 0, text_end = 8710, picture_start = 8197, row_end = 8803, no_size = 8804;
};

/// The code in the name of a token, IMGIMG, its digits as letters from A to J, Z; negative: none.
int code_of(std::string_view name) {
  constexpr std::string_view kBegin = "IMGIMG";
  if (!name.starts_with(kBegin) || !name.ends_with('Z')) return -1;
  name = name.substr(kBegin.size(), name.size() - kBegin.size() - 1);
  if (name.empty() || name.size() > 6) return -1;
  int code = 0;
  for (const char letter : name) {
    if (letter < 'A' || letter > 'J') return -1;
    code = 10 * code + (letter - 'A');
  }
  return code;
}

/// The ids that config.json names, which are the published ones where it does not.
ChameleonIds read_ids(const ConfigKeys& keys) {
  ChameleonIds ids;
  const auto map = keys.object("vocabulary_map");
  if (!map) return ids;
  const Json& names = *keys.find("vocabulary_map");
  const auto id_of = [&](std::string_view name, TokenId otherwise) {
    return map->integer_or(name, 0, Limits::kVocabulary - 1, otherwise);
  };
  ids.first_code = id_of("IMGIMGAZ", ids.first_code);
  ids.codes = 0;
  int most = -1;
  for (const auto& [name, id] : names.items()) {
    const int code = code_of(name);
    if (code < 0) continue;
    if (!id.is_number_integer() || id != ids.first_code + code)
      keys.refuse("vocabulary_map", fmt::format("{} at {}", name, ids.first_code + code));
    most = std::max(most, code);
    ++ids.codes;
  }
  if (most < 0) keys.refuse("vocabulary_map", "codes, from IMGIMGAZ on");
  if (ids.codes != most + 1) keys.refuse("vocabulary_map", "codes without a gap");
  ids.text_start = id_of("<s>", ids.text_start);
  ids.text_end = id_of("<reserved08706>", ids.text_end);
  ids.picture_start = id_of("<racm3:break>", ids.picture_start);
  ids.row_end = id_of("<reserved08799>", ids.row_end);
  ids.no_size = id_of("<reserved08800>", ids.no_size);
  return ids;
}

/// Files do not tell it; a caller may.
void read_grid(const ConfigKeys& keys, int usual_side, Prompt prompt, ModelConfig& config) {
  const std::vector<int> grid = keys.integers("grid", 1, kMostSide, 2);
  config.image = {usual_side, usual_side, prompt};
  if (grid.empty()) return;
  config.image->rows = grid[0];
  config.image->columns = grid[1];
}

/// What the context leaves to prompts.
void read_prompt_room(const ConfigKeys& keys, ModelConfig& config) {
  ImagePlan& image = *config.image;
  image.prompt_tokens = config.context - image.answer_tokens();
  if (image.prompt_tokens >= kFewestPrompts) return;
  keys.refuse("max_position_embeddings",
              fmt::format("at least {}, for a picture of {} by {} cells and its prompt",
                          image.answer_tokens() + kFewestPrompts, image.rows, image.columns));
}

/// Codes are drawn and no other token of the vocabulary that they share with texts: the output
/// matrix has their rows alone, and that of the token between rows of cells.
void share_vocabulary(const ConfigKeys& keys, const ChameleonIds& ids, ModelConfig& config) {
  ImagePlan& image = *config.image;
  image.text_tokens = config.vocabulary;
  image.first_code = ids.first_code;
  image.text_start = ids.text_start;
  image.text_end = ids.text_end;
  image.picture_start = ids.picture_start;
  TokenId last =
      std::max({ids.first_code + ids.codes - 1, ids.text_start, ids.text_end, ids.picture_start});
  if (image.prompt == Prompt::lumina) {
    image.row_end = ids.codes;
    image.stored_row_end = ids.row_end;
    image.no_size = ids.no_size;
    const int side = std::max(image.rows, image.columns);
    last = std::max({last, ids.row_end, ids.no_size + side / kSizeCells});
  }
  if (last >= config.vocabulary)
    keys.refuse("vocab_size", fmt::format("at least {} tokens", last + 1));
  config.vocabulary = ids.codes + (image.row_end < 0 ? 0 : 1);
  config.inputs = config.vocabulary + image.text_tokens;
}

void read_chameleon_as(Prompt prompt, int usual_side, const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "silu");
  if (config.tied_output) keys.refuse("tie_word_embeddings", "false");
  const bool norms_behind = keys.flag_or("swin_norm", false);
  each_plan(config, [&](LayerPlan& plan) {
    plan.head_norm = LayerPlan::HeadNorm::layer_per_head;
    plan.head_norm_bias = true;
    plan.pre_norms = !norms_behind;
    plan.post_norms = norms_behind;
  });
  read_grid(keys, usual_side, prompt, config);
  if (prompt == Prompt::lumina &&
      (config.image->rows % kSizeCells != 0 || config.image->columns % kSizeCells != 0))
    keys.refuse("grid", "even numbers");
  share_vocabulary(keys, read_ids(keys), config);
  read_prompt_room(keys, config);
  config.end_tokens.clear();
}

/// The side of the grid by the pixels in the folder's name, as in Lumina-mGPT-7B-512; each of the
/// published models draws pictures of one size.
int lumina_side(const ConfigKeys& keys) {
  const std::filesystem::path file = keys.where();
  const std::string folder = file.parent_path().filename().string();
  for (const int pixels : {512, 1024}) {
    if (folder.find(fmt::format("-{}", pixels)) != std::string::npos) return pixels / kCellPixels;
  }
  return 48;
}

void read_lumina(const ConfigKeys& keys, ModelConfig& config) {
  read_chameleon_as(Prompt::lumina, lumina_side(keys), keys, config);
}

/// Lumina-mGPT's class may be named where its model_type is Chameleon's.
void read_chameleon(const ConfigKeys& keys, ModelConfig& config) {
  const Json* classes = keys.find("architectures");
  if (classes && classes->dump(-1, ' ', false, Json::error_handler_t::replace).find("XLLMX") !=
                     std::string::npos)
    return read_lumina(keys, config);
  read_chameleon_as(Prompt::chameleon, 32, keys, config);
}

void read_janus(const ConfigKeys& keys, ModelConfig& config) {
  only_activation(keys, "silu");
  config.tied_output = false;
  config.forms.prefix = "language_model.model.";
  config.forms.output = "gen_head.vision_head.";
  read_grid(keys, 24, Prompt::janus, config);
  config.image->text_tokens = config.vocabulary;
  read_prompt_room(keys, config);
  config.end_tokens.clear();
}

}  // namespace

const std::string_view kPictureModelTypes = "chameleon, chameleon_xllmx, multi_modality";

FamilyReader hugging_face_picture_family(std::string_view model_type) {
  if (model_type == "chameleon") return read_chameleon;
  if (model_type == "chameleon_xllmx") return read_lumina;
  return model_type == "multi_modality" ? read_janus : nullptr;
}

void count_codes(const Checkpoint& checkpoint, ModelConfig& config) {
  if (config.image->prompt != Prompt::janus) return;
  const std::string name = "gen_embed.weight";
  const std::vector<std::int64_t>& shape = checkpoint.require(name).shape;
  if (shape.size() != 2 || shape[0] < 1 || shape[0] > Limits::kVocabulary || shape[1] < 1 ||
      shape[1] > Limits::kWidth) {
    fail("load {} {}: expected a matrix with 1 to {} rows, found [{}]",
         quote(checkpoint.path.string()), quote(name), static_cast<int>(Limits::kVocabulary),
         fmt::join(shape, ", "));
  }
  config.vocabulary = static_cast<int>(shape[0]);
  config.inputs = config.vocabulary + config.image->text_tokens;
}

}  // namespace talon
