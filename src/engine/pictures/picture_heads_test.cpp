#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>

#include "backend/cpu/cpu.h"
#include "backend/reference/reference.h"
#include "draft/eagle/eagle_drafter.h"
#include "draft/registry.h"
#include "engine/test_model.h"
#include "io/formats/write_safetensors.h"
#include "io/test_pictures.h"

// EAGLE heads that draft for pictures, with and without a guide. The heads are made of the target's
// own first layer, so that the target itself tells what they must draft.
namespace talon::picture_heads_test {
namespace {

using test::Answer;
using test::TestEngine;
using test::TestModel;
using test::TestOptions;

namespace fs = std::filesystem;

constexpr int kHidden = 64, kPrompt = 6, kCells = 15;

/// The tiny model of tests/data/golden/images/record.py, or its first layer alone.
fs::path words_folder(int layers) {
  return test::unpack_first_layers("talon_picture_heads", "words", layers);
}

/// What a head makes of a pair: it reads the token and is the target's first layer, or it reads the
/// feature and passes it on.
enum class Reads { token, feature };

fs::path write_head(Reads reads) {
  const Checkpoint target = open_checkpoint(words_folder(2));
  const bool token = reads == Reads::token;
  const fs::path folder =
      fs::path(testing::TempDir()) / (token ? "talon_head_of_tokens" : "talon_head_of_features");
  fs::create_directories(folder);
  std::vector<std::pair<std::string, std::vector<float>>> values;
  std::vector<std::vector<std::int64_t>> shapes;
  const auto add = [&](std::string name, std::vector<float> of, std::vector<std::int64_t> shape) {
    values.emplace_back(std::move(name), std::move(of));
    shapes.push_back(std::move(shape));
  };
  std::vector<float> fc(2 * kHidden * kHidden);
  for (std::size_t i = 0; i < kHidden; ++i) fc[i * 2 * kHidden + (token ? 0 : kHidden) + i] = 1;
  add("fc.weight", fc, {kHidden, 2 * kHidden});
  const std::string layer = "layers.0.";
  const std::vector<float> qkv = test::numbers<float>(target, layer + "attention.wqkv.weight");
  const auto part = std::ssize(qkv) / 3;
  int index = 0;
  for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
    const auto begin = qkv.begin() + part * index++;
    add(layer + "self_attn." + name + ".weight", {begin, begin + part}, {kHidden, kHidden});
  }
  const auto take = [&](const std::string& from, const std::string& to, bool passes) {
    std::vector<float> of = test::numbers<float>(target, layer + from + ".weight");
    if (!passes) std::ranges::fill(of, 0.0F);
    add(layer + to + ".weight", of, target.require(layer + from + ".weight").shape);
  };
  take("attention.wo", "self_attn.o_proj", token);
  take("feed_forward.w1", "mlp.gate_proj", true);
  take("feed_forward.w3", "mlp.up_proj", true);
  take("feed_forward.w2", "mlp.down_proj", token);
  take("ffn_norm", "post_attention_layernorm", true);
  if (token) {
    take("attention_norm", "input_layernorm", true);
    add("norm.weight", test::numbers<float>(target, "norm.weight"), {kHidden});
  }
  std::vector<TensorToWrite> tensors;
  for (std::size_t i = 0; i < values.size(); ++i) {
    tensors.push_back(
        {values[i].first, StorageType::f32, shapes[i], std::as_bytes(std::span(values[i].second))});
  }
  write_safetensors(folder / "model.safetensors", tensors);
  const Json config = {{"num_attention_heads", 4}, {"rms_norm_eps", 1e-5}, {"layernorms", token}};
  std::ofstream(folder / "config.json") << config;
  return folder;
}

/// A picture with its guide and some codes.
struct Text {
  std::vector<TokenId> own, guide;
};

Text text_of(int vocabulary, int codes) {
  Text text;
  for (const int word : {2, 0, 8, 8, 8, 6}) text.own.push_back(vocabulary + word);
  text.guide.assign(kPrompt, vocabulary + 8);
  for (int i = 0; i < codes; ++i) {
    const TokenId code = (7 * i + 3) % vocabulary;
    text.own.push_back(code);
    text.guide.push_back(code);
  }
  return text;
}

/// A forward over all of a text but its first `skipped` tokens, which are no part of it.
class Forward {
 public:
  Forward(Model& model, const Text& text, int skipped, float guidance)
      : cache_(*model.backend, kv_shape(model.config, 4, KvType::f32)),
        target_(model, cache_, 64, {{FeatureTap::kFinalNorm}}),
        vocabulary_(model.config.vocabulary),
        backend_(*model.backend),
        sequence_(cache_.start({}, false)) {
    const auto from = [&](const std::vector<TokenId>& tokens) {
      return std::vector<TokenId>(tokens.begin() + skipped, tokens.end());
    };
    const std::vector<TokenId> tokens = from(text.own);
    if (guidance > 1) sequence_.pair(cache_.start({}, false), from(text.guide));
    EXPECT_TRUE(sequence_.reserve(static_cast<int>(tokens.size())));
    SequenceRows rows{.sequence = &sequence_, .tokens = tokens, .parents = {}};
    rows.picture_prompt = kPrompt - skipped;
    rows.guidance = guidance;
    result_ = target_.forward({&rows, 1});
  }

  std::vector<float> logits(int row) const {
    std::vector<float> values(static_cast<std::size_t>(vocabulary_));
    backend_.download(result_.logits.row_range(row, 1), values);
    return values;
  }
  View features(int row, int count) const { return result_.features.row_range(row, count); }
  View guide_features(int row, int count) const {
    return result_.features.row_range(result_.first_guide_row[0] + row, count);
  }

 private:
  KvCache cache_;
  Target target_;
  int vocabulary_;
  Backend& backend_;
  KvSequence sequence_;
  ForwardResult result_;
};

std::vector<TokenId> best(const std::vector<float>& logits, int count) {
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](TokenId token) { return logits[static_cast<std::size_t>(token)]; });
  order.resize(static_cast<std::size_t>(count));
  return order;
}

double log_p(const std::vector<float>& logits, TokenId token) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit);
  return logits[static_cast<std::size_t>(token)] - std::log(sum);
}

std::vector<TokenId> children(const DraftTree& tree, NodeId node) {
  std::vector<NodeId> nodes;
  for (const NodeId child : tree.children(node)) nodes.push_back(child);
  std::ranges::stable_sort(nodes, std::greater<>(), [&](NodeId i) { return tree[i].log_p; });
  std::vector<TokenId> tokens;
  for (const NodeId i : nodes) tokens.push_back(tree[i].token);
  return tokens;
}

/// Shows the head `count` tokens from `first` on.
void observe(Drafter& drafter, DraftState& state, const Forward& whole, const Text& text, int first,
             int count, bool guided) {
  const int row = std::max(0, first - 1), rows = first == 0 ? count - 1 : count;
  const auto part = [&](const std::vector<TokenId>& tokens) {
    return std::span(tokens).subspan(static_cast<std::size_t>(first),
                                     static_cast<std::size_t>(count));
  };
  CommittedTokens committed{part(text.own), first, whole.features(row, rows), first > 0};
  if (guided) {
    committed.guide_tokens = part(text.guide);
    committed.guide_first_position = first;
    committed.guide_features = whole.guide_features(row, rows);
  }
  drafter.observe(state, committed);
}

struct Case {
  Reads reads;
  float guidance;
  int codes;
  int piece;  // tokens shown at once
};

std::string name_of(const Case& given) {
  return fmt::format("{}Guidance{:.0f}Codes{}Piece{}",
                     given.reads == Reads::token ? "Token" : "Feature", given.guidance, given.codes,
                     given.piece);
}
void PrintTo(const Case& given, std::ostream* out) { *out << name_of(given); }

class PictureHeads : public testing::TestWithParam<Case> {};

std::unique_ptr<Drafter> small_trees(Reads reads, const TestModel& target) {
  EagleOptions options;
  options.dynamic = {.width = 3, .children = 3, .levels = 2, .nodes = 12};
  options.coupling.on = false;
  return make_eagle_drafter(load_head(open_checkpoint(write_head(reads)), target.model,
                                      {.layout = WeightLayout::as_stored, .tap_layers = {}}),
                            target.model, options);
}

/// Notes how many tokens the head says it has yet to run.
struct Asked : PolicyState {
  TreePlan plan(const PlanContext&) override { return {}; }
  bool start(const DraftTree&, int waiting) override {
    told = waiting;
    return true;
  }
  int told = -1;
};

/// Of the head that is the target's first layer the tree holds what that layer alone says of a text
/// without its first token; of the other what the target has said of the last code.
TEST_P(PictureHeads, DraftWhatTheGuidedTargetSays) {
  const Case& given = GetParam();
  TestModel target(words_folder(2), make_reference_backend(1));
  TestModel layer(words_folder(1), make_reference_backend(1));
  const Text text = text_of(target.vocabulary(), given.codes);
  const int length = static_cast<int>(text.own.size());
  const Forward whole(target.model, text, 0, given.guidance);

  const auto drafter = small_trees(given.reads, target);
  const auto state = drafter->start();
  const bool guided = given.guidance > 1;
  for (int first = 0; first < length; first += given.piece) {
    observe(*drafter, *state, whole, text, first, std::min(given.piece, length - first), guided);
  }
  DraftTree tree(text.own.back());
  Asked policy;
  DraftJob job{state.get(), &policy, {1000, 1000, 1000}, &tree};
  job.guidance = given.guidance;
  drafter->propose({&job, 1});
  EXPECT_EQ(policy.told, (guided ? 2 : 1) * (length - 2)) << "pairs before the newest";

  const auto expected = [&](Text of) {
    if (given.reads == Reads::feature) return whole.logits(length - 2);
    return Forward(layer.model, of, 1, given.guidance).logits(static_cast<int>(of.own.size()) - 2);
  };
  const std::vector<float> after_root = expected(text);
  ASSERT_EQ(children(tree, 0), best(after_root, 3));
  for (const NodeId node : tree.children(0)) {
    EXPECT_NEAR(tree[node].log_p, log_p(after_root, tree[node].token), 1e-3);
    Text longer = text;
    longer.own.push_back(tree[node].token);
    longer.guide.push_back(tree[node].token);
    EXPECT_EQ(children(tree, node), best(expected(longer), 3)) << node;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PictureHeads,
                         testing::Values(Case{Reads::token, 1, 7, 100},
                                         Case{Reads::token, 3, 7, 100}, Case{Reads::token, 3, 1, 2},
                                         Case{Reads::token, 2, 9, 4}, Case{Reads::feature, 1, 5, 3},
                                         Case{Reads::feature, 3, 5, 100},
                                         Case{Reads::feature, 2, 8, 1}),
                         [](const auto& tested) { return name_of(tested.param); });

/// Once no guide is shown any more, the pairs of the picture alone are run.
TEST(HeadsForPictures, ForgetAGuideThatHasEnded) {
  TestModel target(words_folder(2), make_reference_backend(1));
  TestModel layer(words_folder(1), make_reference_backend(1));
  const Text text = text_of(target.vocabulary(), 7);
  const int length = static_cast<int>(text.own.size()), guided = kPrompt + 3;
  const Forward whole(target.model, text, 0, 3);
  const auto drafter = small_trees(Reads::token, target);
  const auto state = drafter->start();
  observe(*drafter, *state, whole, text, 0, guided, true);
  observe(*drafter, *state, whole, text, guided, length - guided, false);
  DraftTree tree(text.own.back());
  Asked policy;
  DraftJob job{state.get(), &policy, {1000, 1000, 1000}, &tree};
  drafter->propose({&job, 1});
  EXPECT_EQ(policy.told, length - 2) << "pairs before the newest";
  EXPECT_EQ(children(tree, 0), best(Forward(layer.model, text, 1, 1).logits(length - 2), 3));
}

Request picture(const TestModel& model, std::uint64_t seed, float guidance, double temperature) {
  Text text = text_of(model.vocabulary(), 0);
  text.own[1] += static_cast<TokenId>(seed % 5);
  Request request;
  request.prompt = text.own;
  request.guide_prompt = text.guide;
  request.guidance = guidance;
  request.max_new = kCells;
  request.seed = seed;
  request.sampler.temperature = temperature;
  return request;
}

std::vector<Request> pictures(const TestModel& model) {
  return {picture(model, 1, 1, 1), picture(model, 2, 2.5F, 1), picture(model, 3, 4, 0.7),
          picture(model, 4, 2.5F, 0), picture(model, 5, 3, 1.2)};
}

TEST(HeadsForPictures, DraftsOfHeadsChangeNoCode) {
  const auto cpu = [](int threads) {
    CpuOptions options;
    options.threads = threads;
    return make_cpu_backend(options);
  };
  TestModel one(words_folder(2), cpu(1)), two(words_folder(2), cpu(2));
  std::vector<std::vector<TokenId>> expected;
  for (const Request& request : pictures(one))
    expected.push_back(TestEngine(one, make_drafter("none", {})).run(request).tokens);
  const std::string head = write_head(Reads::token).string();
  int accepted = 0;
  for (const std::string drafter :
       {"eagle:", "eagle:topk=1,levels=5,", "eagle2:topk=4,levels=4,nodes=20,",
        "eagle2:coupled=off,topk=3,levels=3,nodes=9,", "jacobi+eagle2:"}) {
    for (TestModel* model : {&one, &two}) {
      TestOptions options;
      options.policy = model == &one ? "fixed" : "throughput";
      options.chunk = model == &one ? 256 : 2;
      for (const int pages : {64, 3}) {
        TestEngine engine(*model, make_drafter(drafter + "head=" + head, {.target = &model->model}),
                          options, pages);
        const auto answers = engine.run(pictures(*model), model == &one ? 0 : 1);
        for (std::size_t i = 0; i < answers.size(); ++i) {
          EXPECT_EQ(answers[i].tokens, expected[i]) << drafter << ' ' << pages << ' ' << i;
          for (const int count : answers[i].statistics.accepted) accepted += count;
        }
        EXPECT_EQ(engine.cache.free_pages(), pages);
      }
    }
  }
  EXPECT_GT(accepted, 100);
}

/// A head that says what the target has said drafts the last code once more where that was the
/// likeliest of the guided logits: only so if it is shown the rows of the guide, too.
TEST(HeadsForPictures, AreShownTheRowsOfTheGuide) {
  TestModel model(words_folder(2), make_reference_backend(1));
  const std::string head = write_head(Reads::feature).string();
  TestOptions options;
  options.policy = "fixed";
  options.chunk = 4;
  int drafts = 0, repeats = 0;
  options.observer = [&](const RoundReport& report) {
    if (report.tree->draft_nodes() == 0) return;
    ++drafts;
    repeats += (*report.tree)[1].token == (*report.tree)[0].token ? 1 : 0;
  };
  TestEngine engine(
      model, make_drafter("eagle:topk=1,levels=1,head=" + head, {.target = &model.model}), options);
  engine.run({picture(model, 1, 3, 0), picture(model, 2, 2, 0), picture(model, 3, 0, 0)}, 2);
  EXPECT_GT(drafts, 20);
  EXPECT_EQ(repeats, drafts);
}

/// Two streams need two pages: for the fifth picture there is room for one stream until the others
/// have ended.
TEST(HeadsForPictures, DraftAgainWhenThereIsRoomForBothStreams) {
  TestModel target(words_folder(2), make_reference_backend(1));
  const Text text = text_of(target.vocabulary(), 12);
  const Forward whole(target.model, text, 0, 3);
  EagleOptions options;
  options.dynamic = {.width = 2, .children = 2, .levels = 2, .nodes = 6};
  options.cache_positions = kPageRows;  // and eight pages in flight
  const auto drafter =
      make_eagle_drafter(load_head(open_checkpoint(write_head(Reads::token)), target.model,
                                   {.layout = WeightLayout::as_stored, .tap_layers = {}}),
                         target.model, options);
  const auto drafts = [&](DraftState& state, int first, int count, Asked& policy) {
    observe(*drafter, state, whole, text, first, count, /*guided=*/true);
    DraftTree tree(text.own[static_cast<std::size_t>(first + count - 1)]);
    DraftJob job{&state, &policy, {1000, 1000, 1000}, &tree};
    job.guidance = 3;
    policy.told = -1;
    drafter->propose({&job, 1});
    return tree.draft_nodes() > 0;
  };
  Asked policy;
  std::vector<std::unique_ptr<DraftState>> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(drafter->start());
    EXPECT_TRUE(drafts(*others.back(), 0, 8, policy));
  }
  const auto last = drafter->start();
  EXPECT_FALSE(drafts(*last, 0, 9, policy));
  EXPECT_FALSE(drafts(*last, 9, 1, policy));
  EXPECT_EQ(policy.told, -1) << "not asked where nothing can be drafted";
  others.clear();
  EXPECT_TRUE(drafts(*last, 10, 3, policy));
  EXPECT_TRUE(drafts(*last, 13, 2, policy));
}

TEST(HeadsForPictures, AreRefusedWhereTheyDoNotFit) {
  TestModel model(words_folder(2), make_reference_backend(1));
  const fs::path folder = write_head(Reads::token);
  const auto refusal = [&](const Json& config) -> std::string {
    std::ofstream(folder / "config.json") << config;
    try {
      load_head(open_checkpoint(folder), model.model);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(refusal({{"num_attention_heads", 4}, {"layernorms", true}}), "no error");
  const std::string narrow = refusal({{"num_attention_heads", 32}, {"layernorms", true}});
  EXPECT_NE(narrow.find("\"head_dim\": expected a multiple of 4, which turn by row and column, "
                        "found 2"),
            std::string::npos)
      << narrow;
  const std::string other =
      refusal({{"num_attention_heads", 4}, {"layernorms", true}, {"vocab_size", 41}});
  EXPECT_NE(other.find("\"vocab_size\": expected 40, found 41"), std::string::npos) << other;
}

}  // namespace
}  // namespace talon::picture_heads_test
