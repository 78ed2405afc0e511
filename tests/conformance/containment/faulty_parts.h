#pragma once

#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "draft/drafter.h"
#include "engine/commit_listener.h"
#include "faulty_allocations.h"
#include "text/tokenizer.h"
#include "tree/tree_policy.h"
#include "verify/verifier.h"

// Parts of an engine that throw when a trigger says so.

namespace talon::test {

/// Ticks before and after each call of another drafter.
class FaultyDrafter : public Drafter {
 public:
  FaultyDrafter(std::unique_ptr<Drafter> inner, Trigger& trigger)
      : inner_(std::move(inner)), trigger_(trigger) {}
  DrafterTraits traits() const override { return inner_->traits(); }
  std::unique_ptr<DraftState> start() override { return inner_->start(); }
  int remembers(std::span<const TokenId> prompt, const TextOwner& owner) override {
    trigger_.tick();
    return inner_->remembers(prompt, owner);
  }
  std::unique_ptr<DraftState> resume(std::span<const TokenId> known, const TextOwner& owner,
                                     std::span<const TokenId> expected) override {
    trigger_.tick();
    return inner_->resume(known, owner, expected);
  }
  void observe(DraftState& state, const CommittedTokens& committed) override {
    trigger_.tick();
    inner_->observe(state, committed);
    trigger_.tick();
  }
  void saw(DraftState& state, const DraftTree& tree, const TokenAfter& drawn) override {
    trigger_.tick();
    inner_->saw(state, tree, drawn);
    trigger_.tick();
  }
  long lost_rows() const override {
    trigger_.tick();
    return inner_->lost_rows();
  }
  void finish(DraftState& state, bool has_ended) override {
    trigger_.tick();
    inner_->finish(state, has_ended);
  }
  void propose(std::span<DraftJob> jobs) override {
    trigger_.tick();
    inner_->propose(jobs);
    trigger_.tick();
  }

 private:
  std::unique_ptr<Drafter> inner_;
  Trigger& trigger_;
};

/// Ticks whenever it is asked about a text or a token.
class FaultyTokenizer : public Tokenizer {
 public:
  FaultyTokenizer(Tokenizer inner, Trigger& trigger)
      : Tokenizer(std::move(inner)), trigger_(trigger) {}
  std::vector<TokenId> encode(std::string_view text, EncodeOptions options) const override {
    trigger_.tick();
    return Tokenizer::encode(text, options);
  }
  std::string bytes_of(TokenId id) const override {
    trigger_.tick();
    return Tokenizer::bytes_of(id);
  }
  bool is_special(TokenId id) const override {
    trigger_.tick();
    return Tokenizer::is_special(id);
  }

 private:
  Trigger& trigger_;
};

/// Proposes what is no token, and tokens below and beside it; `draws`: draws them.
class UnknownTokens : public Drafter {
 public:
  UnknownTokens(int vocabulary, bool draws) : vocabulary_(vocabulary), draws_(draws) {}
  DrafterTraits traits() const override { return {.draws = draws_}; }
  std::unique_ptr<DraftState> start() override { return std::make_unique<DraftState>(); }
  void observe(DraftState&, const CommittedTokens&) override {}
  void propose(std::span<DraftJob> jobs) override {
    const TokenId unknown[] = {-1, std::numeric_limits<TokenId>::min(), vocabulary_,
                               std::numeric_limits<TokenId>::max()};
    for (const DraftJob& job : jobs) {
      DraftTree& tree = *job.tree;
      if (job.plan.nodes < 2 || job.plan.levels < 2) continue;
      if (draws_) {
        tree.draw_children(0, {{{-1, 0.5}, {7, 0.5}}}, 2, [](int) { return 0.1; });
        continue;
      }
      for (const TokenId token : unknown) {
        if (tree.draft_nodes() + 2 > job.plan.nodes) break;
        tree.add(tree.add(0, token, -1), 7, -2);
      }
      if (tree.draft_nodes() < job.plan.nodes) tree.add(0, 7, -3);
    }
  }

 private:
  int vocabulary_;
  bool draws_;
};

/// Ticks at each call, and wants rows of the target.
class FaultyListener : public CommitListener {
 public:
  explicit FaultyListener(Trigger& trigger) : trigger_(trigger) {}
  std::vector<FeatureTap> taps() const override { return {{1}}; }
  int remembers(std::span<const TokenId> text) override {
    trigger_.tick();
    return static_cast<int>(text.size());
  }
  void begin(SequenceId, std::span<const TokenId>) override { trigger_.tick(); }
  void committed(SequenceId, const CommittedTokens&) override { trigger_.tick(); }
  void end(SequenceId) override { trigger_.tick(); }

 private:
  Trigger& trigger_;
};

/// Ticks before and after each call of another rule.
class FaultyRule : public Verifier {
 public:
  FaultyRule(std::unique_ptr<Verifier> inner, Trigger& trigger)
      : inner_(std::move(inner)), trigger_(trigger) {}
  std::string_view name() const override { return inner_->name(); }
  bool lossless() const override { return inner_->lossless(); }
  bool drafts_may_know_noise() const override {
    trigger_.tick();
    return inner_->drafts_may_know_noise();
  }
  VerifyResult verify(const VerifyInput& input) const override {
    trigger_.tick();
    VerifyResult result = inner_->verify(input);
    trigger_.tick();
    return result;
  }

 private:
  std::unique_ptr<Verifier> inner_;
  Trigger& trigger_;
};

/// Ticks at each call of the states of another policy.
class FaultyPolicy : public TreePolicy {
 public:
  FaultyPolicy(std::unique_ptr<TreePolicy> inner, Trigger& trigger)
      : inner_(std::move(inner)), trigger_(trigger) {}
  std::vector<FeatureTap> taps() const override { return inner_->taps(); }
  Traits traits() const override { return inner_->traits(); }
  std::unique_ptr<PolicyState> start(DrafterEstimates& drafter,
                                     const MachineCosts& machine) const override {
    trigger_.tick();
    return std::make_unique<State>(inner_->start(drafter, machine), trigger_);
  }

 private:
  class State : public PolicyState {
   public:
    State(std::unique_ptr<PolicyState> inner, Trigger& trigger)
        : inner_(std::move(inner)), trigger_(trigger) {}
    TreePlan plan(const PlanContext& context) override {
      trigger_.tick();
      return inner_->plan(context);
    }
    void turn_to(std::uint32_t source) override {
      trigger_.tick();
      inner_->turn_to(source);
    }
    bool start(const DraftTree& tree, int waiting) override {
      trigger_.tick();
      return inner_->start(tree, waiting);
    }
    int expand(std::span<const float> path_log_p) override {
      trigger_.tick();
      return inner_->expand(path_log_p);
    }
    void offer(const DraftTree& tree, const PlanContext& context, RowBudget& rows) override {
      trigger_.tick();
      inner_->offer(tree, context, rows);
      trigger_.tick();
    }
    void select(DraftTree& tree, const TreePlan& plan, const PlanContext& context,
                RowBudget& rows) override {
      trigger_.tick();
      inner_->select(tree, plan, context, rows);
      trigger_.tick();
    }
    void learn(const RoundOutcome& outcome) override {
      trigger_.tick();
      inner_->learn(outcome);
    }

   private:
    std::unique_ptr<PolicyState> inner_;
    Trigger& trigger_;
  };

  std::unique_ptr<TreePolicy> inner_;
  Trigger& trigger_;
};

}  // namespace talon::test
