#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>

#include "backend/reference/reference.h"
#include "draft/eagle/eagle_drafter.h"
#include "draft/head/gguf_head.h"
#include "io/formats/write_safetensors.h"
#include "io/test_pictures.h"
#include "model/target.h"

// LANTERN's drafter against PyTorch (tests/data/golden/images/record.py): what it says of the next
// code of a picture that a caption asks for.
namespace talon::eagle_pictures_test {
namespace {

namespace fs = std::filesystem;

using test::numbers;

constexpr double kFloat32 = 1e-4;  // as of models
constexpr int kChildren = 5, kSide = 4;

fs::path unpack(const std::string& name) {
  return test::unpack_picture("talon_eagle_pictures", name);
}

struct Case {
  float guidance;
  int piece;               // tokens shown at once
  bool converted = false;  // the head, to GGUF
};

std::string name_of(const Case& given) {
  return fmt::format("Guidance{:.0f}Piece{}{}", given.guidance, given.piece,
                     given.converted ? "Converted" : "");
}
void PrintTo(const Case& given, std::ostream* out) { *out << name_of(given); }

class LanternHead : public testing::TestWithParam<Case> {
 protected:
  LanternHead()
      : backend_(make_reference_backend(1)),
        golden_(open_checkpoint(unpack("t2i.golden.safetensors"))),
        model_(load_model(open_checkpoint(unpack("lantern/model.safetensors").parent_path()),
                          *backend_)),
        cache_(*backend_, kv_shape(model_.config, 4, KvType::f32)),
        target_(model_, cache_, 64, {{FeatureTap::kFinalNorm}}) {}

  /// The whole picture through the target, whose features the head reads.
  void run(const std::vector<TokenId>& prompt, const std::vector<float>& vectors, float guidance) {
    sequence_.emplace(cache_.start({}, false));
    if (guidance > 1) sequence_->pair(cache_.start({}, false), prompt);
    EXPECT_TRUE(sequence_->reserve(static_cast<int>(text_.size())));
    SequenceRows rows{.sequence = &*sequence_, .tokens = text_, .parents = {}};
    rows.picture_prompt = static_cast<int>(prompt.size());
    rows.vectors = vectors;
    rows.guidance = guidance;
    result_ = target_.forward({&rows, 1});
  }

  /// The first `length` tokens, in pieces.
  void show(Drafter& drafter, DraftState& state, int length, const std::vector<float>& vectors) {
    const Case& given = GetParam();
    const auto width = static_cast<std::size_t>(model_.config.hidden);
    for (int first = 0; first < length; first += given.piece) {
      const int count = std::min(given.piece, length - first);
      const int row = std::max(0, first - 1), rows = first == 0 ? count - 1 : count;
      const auto begin = static_cast<std::size_t>(first);
      CommittedTokens committed{std::span(text_).subspan(begin, static_cast<std::size_t>(count)),
                                first, result_.features.row_range(row, rows), first > 0};
      const std::size_t from = std::min(begin * width, vectors.size());
      committed.vectors = std::span(vectors).subspan(
          from, std::min(static_cast<std::size_t>(count) * width, vectors.size() - from));
      if (given.guidance > 1) {
        committed.guide_tokens = committed.tokens;
        committed.guide_first_position = first;
        committed.guide_features =
            result_.features.row_range(result_.first_guide_row[0] + row, rows);
      }
      drafter.observe(state, committed);
    }
  }

  static Checkpoint head() {
    const fs::path folder = unpack("lantern_head/model.safetensors").parent_path();
    if (!GetParam().converted) return open_checkpoint(folder);
    const fs::path file = fs::path(testing::TempDir()) / "talon_lantern_head.gguf";
    write_gguf_head(open_checkpoint(folder),
                    open_checkpoint(unpack("lantern/model.safetensors").parent_path()),
                    HeadStorage::f32, file);
    return open_checkpoint(file);
  }

  std::unique_ptr<Backend> backend_;
  Checkpoint golden_;
  Model model_;
  KvCache cache_;
  Target target_;
  std::optional<KvSequence> sequence_;
  ForwardResult result_;
  std::vector<TokenId> text_;
};

TEST_P(LanternHead, SaysWhatThePublishedOneSays) {
  const Case& given = GetParam();
  const auto features = numbers<float>(golden_, "features");
  const auto rows = static_cast<int>(golden_.require("features").shape[0]);
  const std::vector<float> vectors = project_caption(model_, features, rows);
  std::vector<TokenId> prompt(static_cast<std::size_t>(rows));
  std::iota(prompt.begin(), prompt.end(), model_.config.input_count() - rows);
  const auto codes = numbers<TokenId>(golden_, "codes");
  text_ = prompt;
  text_.insert(text_.end(), codes.begin(), codes.end());
  run(prompt, vectors, given.guidance);
  const auto expected = numbers<float>(golden_, given.guidance > 1 ? "drafted" : "drafted_alone");

  EagleOptions options;
  options.dynamic = {.width = kChildren, .children = kChildren, .levels = 1, .nodes = kChildren};
  options.coupling.on = false;
  const auto drafter = make_eagle_drafter(
      load_head(head(), model_, {.layout = WeightLayout::as_stored, .tap_layers = {}}), model_,
      options);
  for (int shown = 1; shown < kSide * kSide; ++shown) {
    const auto state = drafter->start();
    show(*drafter, *state, rows + shown, vectors);
    DraftTree tree(codes[static_cast<std::size_t>(shown) - 1]);
    DraftJob job{state.get(), nullptr, {1000, 1000, 1000}, &tree};
    job.guidance = given.guidance;
    drafter->propose({&job, 1});
    const auto vocabulary = static_cast<std::size_t>(model_.config.vocabulary);
    const auto logits =
        std::span(expected).subspan((static_cast<std::size_t>(shown) - 1) * vocabulary, vocabulary);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    ASSERT_EQ(tree.draft_nodes(), kChildren);
    for (const NodeId node : tree.children(0)) {
      const auto token = static_cast<std::size_t>(tree[node].token);
      EXPECT_NEAR(tree[node].log_p, static_cast<double>(logits[token]) - std::log(sum),
                  5 * kFloat32)
          << shown;
    }
    EXPECT_EQ(tree[1].token, std::ranges::max_element(logits) - logits.begin()) << shown;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LanternHead,
                         testing::Values(Case{1, 100}, Case{3, 100}, Case{3, 4}, Case{1, 3},
                                         Case{1, 100, true}),
                         [](const auto& tested) { return name_of(tested.param); });

/// The tiny Anole with its first layers.
fs::path anole_folder(int layers, bool shared) {
  const fs::path folder = test::unpack_first_layers("talon_eagle_anole", "anole", layers);
  if (shared) test::share_head_norms(folder / "model.safetensors", 1);
  return folder;
}

/// In the layout of LANTERN's for Anole one that reads tokens alone and is the target's first
/// layer.
fs::path write_anole_head(bool shared) {
  constexpr std::size_t kHidden = 64;
  std::vector<float> fc(2 * kHidden * kHidden);
  for (std::size_t i = 0; i < kHidden; ++i) fc[i * 2 * kHidden + i] = 1;
  std::vector<TensorToWrite> tensors = {
      {"fc.weight", StorageType::f32, {kHidden, 2 * kHidden}, std::as_bytes(std::span(fc))}};
  const fs::path file = unpack("anole/model.safetensors");
  if (shared) test::share_head_norms(file, 1);
  const Checkpoint target = open_checkpoint(file);
  for (const StoredTensor& tensor : target.tensors) {
    const std::string name = tensor.name.substr(tensor.name.find('.') + 1);  // behind "model."
    if (name.starts_with("layers.0.") || tensor.name == "model.norm.weight")
      tensors.push_back({name, tensor.type, tensor.shape, tensor.bytes});
  }
  const fs::path folder = fs::path(testing::TempDir()) / "talon_anole_head";
  fs::create_directories(folder);
  write_safetensors(folder / "model.safetensors", tensors);
  std::ofstream(folder / "config.json") << Json{{"num_attention_heads", 4}, {"rms_norm_eps", 1e-5}};
  return folder;
}

class LanternHeadForAnole : public testing::TestWithParam<bool> {};

/// Its queries and keys have LayerNorms for each head or one for all, as the target's do.
TEST_P(LanternHeadForAnole, SaysWhatTheLayerThatItIsSays) {
  const bool shared = GetParam();
  const auto backend = make_reference_backend(1);
  const Model model = load_model(open_checkpoint(anole_folder(2, shared)), *backend);
  const Model layer = load_model(open_checkpoint(anole_folder(1, shared)), *backend);
  const int codes = model.config.vocabulary;
  const std::vector<TokenId> text = {codes, codes + 36, codes + 39, codes + 31, codes + 30,
                                     7,     3,          20,         11};
  KvCache cache(*backend, kv_shape(model.config, 4, KvType::f32));
  Target target(model, cache, 64, {{FeatureTap::kFinalNorm}});
  KvSequence sequence = cache.start({}, false);
  EXPECT_TRUE(sequence.reserve(static_cast<int>(text.size())));
  const SequenceRows rows{.sequence = &sequence, .tokens = text, .parents = {}};
  const View features = target.forward({&rows, 1}).features;

  EagleOptions options;
  options.dynamic = {.width = kChildren, .children = kChildren, .levels = 1, .nodes = kChildren};
  options.coupling.on = false;
  const auto drafter =
      make_eagle_drafter(load_head(open_checkpoint(write_anole_head(shared)), model,
                                   {.layout = WeightLayout::as_stored, .tap_layers = {}}),
                         model, options);
  const auto state = drafter->start();
  const int pairs = static_cast<int>(text.size()) - 1;
  drafter->observe(*state, {text, 0, features.row_range(0, pairs), false});
  DraftTree tree(text.back());
  DraftJob job{state.get(), nullptr, {1000, 1000, 1000}, &tree};
  drafter->propose({&job, 1});

  KvCache other_cache(*backend, kv_shape(layer.config, 4, KvType::f32));
  Target first_layer(layer, other_cache, 64);
  KvSequence rest = other_cache.start({}, false);
  EXPECT_TRUE(rest.reserve(pairs));
  SequenceRows behind{.sequence = &rest, .tokens = std::span(text).subspan(1), .parents = {}};
  behind.logits = SequenceRows::Logits::last;
  std::vector<float> logits(static_cast<std::size_t>(codes));
  backend->download(first_layer.forward({&behind, 1}).logits, logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  ASSERT_EQ(tree.draft_nodes(), kChildren);
  for (const NodeId node : tree.children(0)) {
    const auto token = static_cast<std::size_t>(tree[node].token);
    EXPECT_NEAR(tree[node].log_p, static_cast<double>(logits[token]) - std::log(sum), 5 * kFloat32);
  }
  EXPECT_EQ(tree[1].token, std::ranges::max_element(logits) - logits.begin());
}

INSTANTIATE_TEST_SUITE_P(Norms, LanternHeadForAnole, testing::Bool(), [](const auto& tested) {
  return std::string(tested.param ? "OneForAllHeads" : "OneForEachHead");
});

}  // namespace
}  // namespace talon::eagle_pictures_test
