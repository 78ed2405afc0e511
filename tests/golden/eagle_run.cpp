#include "eagle_run.h"

#include <gtest/gtest.h>

#include <numeric>

#include "backend/index_list.h"
#include "backend/reference/reference.h"
#include "draft/registry.h"
#include "io/checkpoint.h"

namespace talon {
namespace {

constexpr int kMostRows = 256;
constexpr std::size_t kCacheBytes = std::size_t{16} << 20;

std::string golden_folder() { return std::string(TALON_TEST_DATA) + "/golden/stories260k/"; }

std::vector<TokenId> lily() {
  return {1, 403, 407, 261, 378, 432, 383, 286, 261, 376, 298, 315, 421, 395, 317, 426};
}

/// One sequence under greedy decoding.
class Decoding {
 public:
  Decoding(EagleTarget& of, Drafter& drafter)
      : backend_(*of.backend),
        target_(of.model, *of.cache, kMostRows, drafter.taps()),
        drafter_(drafter),
        cache_(of.cache->start({}, /*reuse=*/false)),
        state_(drafter.start()),
        gathered_(backend_.allocate(kMostRows, target_.feature_width())),
        largest_(backend_.allocate(1, 1)),
        best_(backend_.allocate_indices(1)),
        rows_(backend_) {}

  TokenId prefill(std::span<const TokenId> prompt, std::optional<TokenId> root) {
    if (prompt.empty()) {
      drafter_.observe(*state_, {{&root.value(), 1}, 0, {}, /*first_has_row=*/false});
      return *root;
    }
    const auto rows = static_cast<int>(prompt.size());
    const ForwardResult result = forward(prompt, {});
    const TokenId next = root.value_or(argmax(result, rows - 1));
    std::vector<TokenId> committed(prompt.begin(), prompt.end());
    committed.push_back(next);
    keep_all(prompt);
    drafter_.observe(*state_,
                     {committed, 0, result.features ? result.features.row_range(0, rows) : View{},
                      /*first_has_row=*/false});
    return next;
  }

  EagleRound round(TokenId root) {
    EagleRound round;
    round.seq_len = cache_.length();
    round.tree.reset(root);
    DraftJob job{state_.get(), nullptr, {kMostRows - 1, kMostRows, kMostRows}, &round.tree};
    drafter_.propose(std::span(&job, 1));
    check_invariants(round.tree);
    const ForwardResult result = forward(round.tree.tokens(), round.tree.parents());
    for (NodeId node = 0; node >= 0; node = round.tree.child(node, round.next)) {
      round.path.push_back(node);
      round.next = argmax(result, node);
    }
    if (drafter_.traits().sees_draws) {
      drafter_.saw(*state_, round.tree, [&](NodeId node) { return argmax(result, node); });
    }
    commit(round, result);
    return round;
  }

 private:
  ForwardResult forward(std::span<const TokenId> tokens, std::span<const NodeId> parents) {
    EXPECT_TRUE(cache_.reserve(static_cast<int>(tokens.size())));
    const SequenceRows rows{&cache_, tokens, parents};
    return target_.forward(std::span(&rows, 1));
  }
  TokenId argmax(const ForwardResult& result, int row) {
    backend_.argmax(result.logits.row_range(row, 1), best_.first(1), largest_.view());
    TokenId token = 0;
    backend_.download(best_.first(1), std::span(&token, 1));
    return token;
  }
  void keep_all(std::span<const TokenId> tokens) {
    std::vector<NodeId> rows(tokens.size());
    std::iota(rows.begin(), rows.end(), 0);
    cache_.keep(rows, tokens);
  }
  void commit(const EagleRound& round, const ForwardResult& result) {
    std::vector<TokenId> kept, observed;
    for (const NodeId node : round.path) kept.push_back(round.tree[node].token);
    observed.assign(kept.begin() + 1, kept.end());
    observed.push_back(round.next);
    View features = {};
    if (result.features) {
      features = gathered_.rows(static_cast<int>(round.path.size()));
      backend_.gather_rows(result.features, rows_.put(round.path), features);
    }
    const int first_position = cache_.length() + 1;
    cache_.keep(round.path, kept);
    drafter_.observe(*state_, {observed, first_position, features});
  }

  Backend& backend_;
  Target target_;
  Drafter& drafter_;
  KvSequence cache_;
  std::unique_ptr<DraftState> state_;
  Buffer gathered_, largest_;
  IndexBuffer best_;
  IndexList rows_;
};

}  // namespace

EagleTarget::EagleTarget() : backend(make_reference_backend(1)) {
  model = load_model(open_checkpoint(golden_folder() + "target"), *backend);
  cache = std::make_unique<KvCache>(
      *backend, within_budget(kv_shape(model.config, 1, KvType::f32), kCacheBytes));
}

std::unique_ptr<Drafter> EagleTarget::make_drafter(const std::string& text,
                                                   const std::string& head) const {
  DrafterContext context;
  context.target = &model;
  context.head = head.find('/') == std::string::npos ? golden_folder() + head : head;
  return talon::make_drafter(text, context);
}

EagleTarget& eagle_target() {
  static EagleTarget target;
  return target;
}

std::vector<EagleRound> run_eagle(EagleTarget& target, Drafter& drafter,
                                  std::span<const TokenId> prompt, int rounds,
                                  std::optional<TokenId> first_root) {
  Decoding decoding(target, drafter);
  TokenId root = decoding.prefill(prompt, first_root);
  std::vector<EagleRound> done;
  while (static_cast<int>(done.size()) < rounds) {
    done.push_back(decoding.round(root));
    root = done.back().next;
  }
  return done;
}

FeaturedText featured(std::vector<TokenId> tokens, std::vector<FeatureTap> taps) {
  EagleTarget& of = eagle_target();
  const int rows = static_cast<int>(tokens.size());
  Target target(of.model, *of.cache, rows, std::move(taps));
  KvSequence cache = of.cache->start({}, false);
  EXPECT_TRUE(cache.reserve(rows));
  const SequenceRows all{&cache, tokens, {}, SequenceRows::Logits::none};
  FeaturedText text{std::move(tokens), of.backend->allocate(rows, target.feature_width())};
  const View features = target.forward(std::span(&all, 1)).features;
  if (features) of.backend->copy(features, text.features.view());
  return text;
}

void observe(Drafter& drafter, DraftState& state, const FeaturedText& text, int first, int count) {
  const auto tokens =
      std::span(text.tokens)
          .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
  const bool starts = first == 0;
  const View features =
      text.features.view().row_range(starts ? 0 : first - 1, starts ? count - 1 : count);
  drafter.observe(state, {tokens, first, features, !starts});
}

DraftTree propose(Drafter& drafter, DraftState& state, TokenId root, TreePlan plan) {
  DraftTree tree(root);
  DraftJob job{&state, nullptr, plan, &tree};
  drafter.propose(std::span(&job, 1));
  check_invariants(tree);
  return tree;
}

std::vector<TokenId> emitted(std::span<const EagleRound> rounds) {
  std::vector<TokenId> tokens;
  for (const EagleRound& round : rounds) {
    for (const NodeId node : round.path) tokens.push_back(round.tree[node].token);
  }
  return tokens;
}

std::vector<EagleRound> drafts_of(const std::string& drafter, const std::string& head) {
  const auto made =
      eagle_target().make_drafter(drafter + ":topk=4,levels=4,nodes=12,weights=f32", head);
  return run_eagle(eagle_target(), *made, lily(), 6);
}

void expect_same_drafts(const std::vector<EagleRound>& a, const std::vector<EagleRound>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t round = 0; round < a.size(); ++round) {
    EXPECT_EQ(a[round].tree.tokens(), b[round].tree.tokens());
    EXPECT_EQ(a[round].tree.parents(), b[round].tree.parents());
    EXPECT_EQ(a[round].tree.log_ps(), b[round].tree.log_ps());
  }
}

}  // namespace talon
