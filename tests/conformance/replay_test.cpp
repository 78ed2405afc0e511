#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <optional>

#include "../golden/maker_data.h"
#include "backend/wrap/forwarding.h"
#include "engine/test_model.h"
#include "model/target.h"
#include "models.h"

namespace talon::test::replay_test {
namespace {

/// Notes on which memory the operations of a replay's body work, and compares it with what the
/// first body of that key worked on.
class ReplayWatch : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  int replays = 0;    // whose key had come before
  int differing = 0;  // of these: a recording of the first would have done something else

  void replay(const ReplayKey& key, const std::function<void()>& body) override {
    noted_.clear();
    body();
    const auto [first, is_new] = bodies_.try_emplace(key, noted_);
    if (is_new) return;
    ++replays;
    differing += first->second == noted_ ? 0 : 1;
  }

  void embed(const Weight& table, const Indices& tokens, const View& out) override {
    note(1, {}, {tokens}, {out});
    ForwardingBackend::embed(table, tokens, out);
  }
  void linear(const LinearArgs& args) override {
    note(2, {}, {}, {args.input, args.norm});
    for (const Projection& output : args.outputs) note(2, output.weight, {}, {output.out});
    ForwardingBackend::linear(args);
  }
  void route(const RouteArgs& args) override {
    note(3, {}, {args.ids}, {args.scores, args.weights});
    ForwardingBackend::route(args);
  }
  void experts(const ExpertArgs& args) override {
    note(4, args.experts.data(), {args.ids}, {args.input, args.weights, args.out});
    ForwardingBackend::experts(args);
  }
  void count_first_uses(const Indices& ids, int experts, const Indices& counts) override {
    note(12, {}, {ids, counts}, {});
    ForwardingBackend::count_first_uses(ids, experts, counts);
  }
  void rms_norm(const View& x, const View& weight, float epsilon, const View& out) override {
    note(5, {}, {}, {x, weight, out});
    ForwardingBackend::rms_norm(x, weight, epsilon, out);
  }
  void add(const View& a, const View& b, const View& out) override {
    note(6, {}, {}, {a, b, out});
    ForwardingBackend::add(a, b, out);
  }
  void scale_rows(const View& x, const View& factors) override {
    note(7, {}, {}, {x, factors});
    ForwardingBackend::scale_rows(x, factors);
  }
  void copy(const View& from, const View& to) override {
    note(8, {}, {}, {from, to});
    ForwardingBackend::copy(from, to);
  }
  void gather_rows(const View& from, const Indices& rows, const View& to) override {
    note(9, {}, {rows}, {from, to});
    ForwardingBackend::gather_rows(from, rows, to);
  }
  void attention(const AttentionArgs& args) override {
    note(10, args.cache, {}, {args.q, args.k, args.v, args.out, args.rope, args.query_scale});
    ForwardingBackend::attention(args);
  }
  void recurrent(const RecurrentArgs& args) override {
    note(11, {}, {}, {args.inputs, args.states, args.tails, args.out});
    ForwardingBackend::recurrent(args);
  }

 private:
  struct Operation {
    int kind;
    const void* on;
    std::vector<std::pair<const void*, int>> memory;  // with rows or counts
    bool operator==(const Operation&) const = default;
  };
  void note(int kind, const void* on, std::initializer_list<Indices> lists,
            std::initializer_list<View> views) {
    Operation& operation = noted_.emplace_back(Operation{kind, on, {}});
    for (const Indices& list : lists) operation.memory.emplace_back(list.data, list.count);
    for (const View& view : views) operation.memory.emplace_back(view.data, view.rows);
  }

  std::vector<Operation> noted_;
  std::map<ReplayKey, std::vector<Operation>> bodies_;
};

/// Forwards of many sizes over one text, some of them trees.
class Forwards {
 public:
  explicit Forwards(TestModel& model) : model_(model), sequence_(cache_.start({}, false)) {}

  void begin_target(std::vector<FeatureTap> taps) {
    target_.reset();  // the next may lie where this one lay
    target_.emplace(model_.model, cache_, 64, std::move(taps));
  }
  void read(int rows) { forward(rows, {}, rows); }
  void check_tree(int rows) {
    std::vector<NodeId> parents(static_cast<std::size_t>(rows), 0);
    parents.front() = -1;
    forward(rows, parents, 1);
  }

 private:
  void forward(int rows, std::span<const NodeId> parents, int kept) {
    std::vector<TokenId> tokens(static_cast<std::size_t>(rows));
    std::iota(tokens.begin(), tokens.end(), 3);
    ASSERT_TRUE(sequence_.reserve(rows));
    SequenceRows batch{&sequence_, tokens, parents, SequenceRows::Logits::all};
    batch.kept = parents.empty();
    target_->forward({&batch, 1});
    std::vector<NodeId> path(static_cast<std::size_t>(kept));
    std::iota(path.begin(), path.end(), 0);
    sequence_.keep(path, std::span(tokens).first(path.size()));
  }

  TestModel& model_;
  KvCache cache_{*model_.backend, kv_shape(model_.model.config, 8)};
  KvSequence sequence_;
  std::optional<Target> target_;
};

/// What a backend that records forwards relies on (Backend::replay).
class Replay : public testing::TestWithParam<std::string> {};

TEST_P(Replay, OneKeyMeansOneListOfOperationsOnOneMemory) {
  auto backend = std::make_unique<ReplayWatch>(cpu_backend(1));
  ReplayWatch& watch = *backend;
  TestModel model(unpack_maker(GetParam()).folder, std::move(backend));
  Forwards forwards(model);
  for (const FeatureTap tap : {FeatureTap{0}, FeatureTap{1}}) {
    forwards.begin_target({tap});
    forwards.read(1);
    forwards.check_tree(3);
    forwards.read(3);
    forwards.read(64);
    forwards.check_tree(1);
    forwards.check_tree(40);
    forwards.read(1);
    forwards.check_tree(3);
    forwards.read(3);
  }
  EXPECT_GE(watch.replays, 3);
  EXPECT_EQ(watch.differing, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, Replay,
                         testing::Values("gemma2",      // two rotary tables, near layers
                                         "gemma4_e",    // per-layer embeddings
                                         "ministral3",  // queries scaled by position
                                         "qwen3_moe", "qwen3_next"),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace talon::test::replay_test
