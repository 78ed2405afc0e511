#pragma once

#include <memory>
#include <utility>

#include "backend/wrap/forwarding.h"
#include "draft/drafter.h"
#include "engine/commit_listener.h"
#include "faulty_allocations.h"
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

class FaultyRule : public Verifier {
 public:
  explicit FaultyRule(Trigger& trigger) : trigger_(trigger) {}
  std::string_view name() const override { return inner_->name(); }
  bool lossless() const override { return inner_->lossless(); }
  VerifyResult verify(const VerifyInput& input) const override {
    trigger_.tick();
    VerifyResult result = inner_->verify(input);
    trigger_.tick();
    return result;
  }

 private:
  std::unique_ptr<Verifier> inner_ = make_verifier("follow");
  Trigger& trigger_;
};

/// Ticks at each call of the states of another policy.
class FaultyPolicy : public TreePolicy {
 public:
  FaultyPolicy(std::unique_ptr<TreePolicy> inner, Trigger& trigger)
      : inner_(std::move(inner)), trigger_(trigger) {}
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

/// Ticks at every operation that a step uses.
class FaultyBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  Buffer allocate(int rows, int cols) override {
    trigger.tick();
    return ForwardingBackend::allocate(rows, cols);
  }
  IndexBuffer allocate_indices(int count) override {
    trigger.tick();
    return ForwardingBackend::allocate_indices(count);
  }
  void upload(std::span<const float> from, const View& to) override {
    trigger.tick();
    ForwardingBackend::upload(from, to);
  }
  void upload(std::span<const std::int32_t> from, const Indices& to) override {
    trigger.tick();
    ForwardingBackend::upload(from, to);
  }
  Fence download_async(const View& from, std::span<float> to) override {
    trigger.tick();
    return ForwardingBackend::download_async(from, to);
  }
  Fence download_async(const Indices& from, std::span<std::int32_t> to) override {
    trigger.tick();
    return ForwardingBackend::download_async(from, to);
  }
  void embed(const Weight& table, const Indices& tokens, const View& out) override {
    trigger.tick();
    ForwardingBackend::embed(table, tokens, out);
  }
  void linear(const LinearArgs& args) override {
    trigger.tick();
    ForwardingBackend::linear(args);
  }
  void rms_norm(const View& x, const View& weight, float epsilon, const View& out) override {
    trigger.tick();
    ForwardingBackend::rms_norm(x, weight, epsilon, out);
  }
  void copy(const View& from, const View& to) override {
    trigger.tick();
    ForwardingBackend::copy(from, to);
  }
  void gather_rows(const View& from, const Indices& rows, const View& to) override {
    trigger.tick();
    ForwardingBackend::gather_rows(from, rows, to);
  }
  std::unique_ptr<PreparedLayout> prepare(const AttentionLayout& layout) override {
    trigger.tick();
    return ForwardingBackend::prepare(layout);
  }
  void attention(const AttentionArgs& args) override {
    trigger.tick();
    ForwardingBackend::attention(args);
    trigger.tick();
  }
  void copy_kv(KvStore& cache, const Indices& from, const Indices& to) override {
    trigger.tick();
    ForwardingBackend::copy_kv(cache, from, to);
  }
  void argmax(const View& x, const Indices& best, const View& largest) override {
    trigger.tick();
    ForwardingBackend::argmax(x, best, largest);
  }
  void top_k(const View& x, int k, const View& values, const Indices& indices) override {
    trigger.tick();
    ForwardingBackend::top_k(x, k, values, indices);
  }
  void synchronize() override {
    trigger.tick();
    ForwardingBackend::synchronize();
  }

  Trigger trigger;
};

}  // namespace talon::test
