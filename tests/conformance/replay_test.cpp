#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "../golden/maker_data.h"
#include "backend/wrap/forwarding.h"
#include "draft/registry.h"
#include "engine/test_model.h"
#include "io/test_files.h"
#include "model/target.h"
#include "models.h"
#include "random_heads.h"

namespace talon::test::replay_test {
namespace {

/// Notes on which memory the operations of a replay's body work, and compares it with what the
/// first body of that key worked on.
class ReplayWatch : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  int replays = 0;    // whose key had come before
  int differing = 0;  // of these: a recording of the first would have done something else
  // While a drafter works.
  bool is_drafting = false;
  int draft_replays = 0;             // whose key had come before
  std::set<std::string> unrecorded;  // operations of networks outside of replays
  int vocabulary = 0, hidden = 0;    // of output matrices, whose products stand outside of replays

  void replay(const ReplayKey& key, const std::function<void()>& body) override {
    noted_.clear();
    is_replaying_ = true;
    body();
    is_replaying_ = false;
    const auto [first, is_new] = bodies_.try_emplace(key, noted_);
    if (is_new) return;
    ++replays;
    if (is_drafting) ++draft_replays;
    differing += first->second == noted_ ? 0 : 1;
  }

  void embed(const Weight& table, const Indices& tokens, const View& out) override {
    note("embed", {}, {tokens}, {out});
    ForwardingBackend::embed(table, tokens, out);
  }
  void linear(const LinearArgs& args) override {
    note_products(args);
    ForwardingBackend::linear(args);
  }
  void linear_all(std::span<const LinearArgs> calls) override {
    for (const LinearArgs& args : calls) note_products(args);
    ForwardingBackend::linear_all(calls);
  }
  void route(const RouteArgs& args) override {
    note("route", {}, {args.ids}, {args.scores, args.weights});
    ForwardingBackend::route(args);
  }
  void experts(const ExpertArgs& args) override {
    note("experts", args.experts.data(), {args.ids}, {args.input, args.weights, args.out});
    ForwardingBackend::experts(args);
  }
  void count_first_uses(const Indices& ids, int experts, const Indices& counts) override {
    note("count_first_uses", {}, {ids, counts}, {});
    ForwardingBackend::count_first_uses(ids, experts, counts);
  }
  void rms_norm(const View& x, const View& weight, float epsilon, const View& out) override {
    note("rms_norm", {}, {}, {x, weight, out});
    ForwardingBackend::rms_norm(x, weight, epsilon, out);
  }
  void add(const View& a, const View& b, const View& out) override {
    note("add", {}, {}, {a, b, out});
    ForwardingBackend::add(a, b, out);
  }
  void add_scaled(const View& a, const View& b, float factor, const View& out) override {
    note("add_scaled", {}, {}, {a, b, out});
    ForwardingBackend::add_scaled(a, b, factor, out);
  }
  void soft_cap(const View& x, float cap) override {
    note("soft_cap", {}, {}, {x});
    ForwardingBackend::soft_cap(x, cap);
  }
  void scale_rows(const View& x, const View& factors) override {
    note("scale_rows", {}, {}, {x, factors});
    ForwardingBackend::scale_rows(x, factors);
  }
  void activate(const View& x, Activation function) override {
    note("activate", {}, {}, {x});
    ForwardingBackend::activate(x, function);
  }
  void copy(const View& from, const View& to) override {
    note("copy", {}, {}, {from, to});
    ForwardingBackend::copy(from, to);
  }
  void gather_rows(const View& from, const Indices& rows, const View& to) override {
    note("gather_rows", {}, {rows}, {from, to});
    ForwardingBackend::gather_rows(from, rows, to);
  }
  void attention(const AttentionArgs& args) override {
    note("attention", args.cache, {{nullptr, args.layout->rows}},
         {args.q, args.k, args.v, args.out, args.rope, args.query_scale});
    ForwardingBackend::attention(args);
  }
  void recurrent(const RecurrentArgs& args) override {
    note("recurrent", {}, {}, {args.inputs, args.states, args.tails, args.out});
    ForwardingBackend::recurrent(args);
  }

 private:
  struct Operation {
    std::string_view name;
    const void* on;
    std::vector<std::pair<const void*, int>> memory;  // with rows or counts
    bool operator==(const Operation&) const = default;
  };
  void note_products(const LinearArgs& args) {
    const Weight& first = *args.outputs.front().weight;
    const bool is_output = first.rows == vocabulary && first.cols == hidden;
    const char* name = is_output ? "output" : "linear";
    note(name, {}, {}, {args.input, args.norm});
    for (const Projection& output : args.outputs) note(name, output.weight, {}, {output.out});
  }
  void note(std::string_view name, const void* on, std::initializer_list<Indices> lists,
            std::initializer_list<View> views) {
    // How what varies comes to the network's memory, and what the choice of children takes.
    const std::set<std::string_view> beside = {"copy", "gather_rows", "add", "output"};
    if (is_drafting && !is_replaying_ && !beside.contains(name)) unrecorded.emplace(name);
    Operation& operation = noted_.emplace_back(Operation{name, on, {}});
    for (const Indices& list : lists) operation.memory.emplace_back(list.data, list.count);
    for (const View& view : views) operation.memory.emplace_back(view.data, view.rows);
  }

  bool is_replaying_ = false;
  std::vector<Operation> noted_;
  std::map<ReplayKey, std::vector<Operation>> bodies_;
};

/// Tells a watch when another drafter works.
class WatchedDrafter : public Drafter {
 public:
  WatchedDrafter(std::unique_ptr<Drafter> inner, ReplayWatch& watch)
      : inner_(std::move(inner)), watch_(watch) {}
  DrafterTraits traits() const override { return inner_->traits(); }
  std::unique_ptr<DraftState> start() override { return inner_->start(); }
  int remembers(std::span<const TokenId> prompt, const TextOwner& owner) override {
    return inner_->remembers(prompt, owner);
  }
  std::unique_ptr<DraftState> resume(std::span<const TokenId> known, const TextOwner& owner,
                                     std::span<const TokenId> expected) override {
    return inner_->resume(known, owner, expected);
  }
  void observe(DraftState& state, const CommittedTokens& committed) override {
    watch_.is_drafting = true;
    inner_->observe(state, committed);
    watch_.is_drafting = false;
  }
  void finish(DraftState& state, bool has_ended) override {
    watch_.is_drafting = true;
    inner_->finish(state, has_ended);
    watch_.is_drafting = false;
  }
  void propose(std::span<DraftJob> jobs) override {
    watch_.is_drafting = true;
    inner_->propose(jobs);
    watch_.is_drafting = false;
  }

 private:
  std::unique_ptr<Drafter> inner_;
  ReplayWatch& watch_;
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

struct HeadCase {
  std::string_view drafter;
  const char* head;              // of write_random_heads(); null: the model's own
  const char* family = nullptr;  // of unpack_maker(); null: stories260K
  MarkovKind markov = MarkovKind::vanilla;

  std::string name() const {
    std::string text = fmt::format("{}{}", drafter, family ? family : "");
    if (markov != MarkovKind::vanilla) text += name_of(markov);
    std::erase_if(text, [](unsigned char c) { return !std::isalnum(c); });
    return text;
  }
};
constexpr HeadCase kHeadCases[] = {{"eagle", "eagle1"},
                                   {"eagle2:window=5,sinks=2", "eagle1"},
                                   {"eagle3", "eagle3"},
                                   {"peagle", "peagle"},
                                   {"dflash", "dflash"},
                                   {"dflash:window=5,sinks=2", "dflash"},
                                   {"dspark:stop=0.3", "dspark"},
                                   {"dspark:stop=0.3", "dspark", nullptr, MarkovKind::gated},
                                   {"dspark:stop=0.3", "dspark", nullptr, MarkovKind::rnn},
                                   {"medusa", "medusa"},
                                   {"mtp", nullptr, "deepseek_v3"},
                                   {"mtp", nullptr, "qwen3_next"}};
void PrintTo(const HeadCase& head, std::ostream* out) { *out << head.name(); }

/// As Replay, of the networks that draft.
class ReplayOfHeads : public testing::TestWithParam<HeadCase> {
 protected:
  static std::filesystem::path model_path(const HeadCase& head) {
    if (head.family) return unpack_maker(head.family).folder;
    return kStories260k;
  }
  static std::vector<Request> requests(int vocabulary) {
    std::vector<Request> all;
    for (const int length : {20, 1, 75, 20}) {
      Request& asked = all.emplace_back();
      asked.max_new = 24;
      asked.seed = all.size();
      if (all.size() % 2 == 0) asked.sampler.temperature = 0.8F;
      for (int token = 0; token < length; ++token)
        asked.prompt.push_back((token * 7 + static_cast<int>(all.size())) % vocabulary);
    }
    return all;
  }

  TemporaryFolder folder_;
};

TEST_P(ReplayOfHeads, OneKeyMeansOneListOfOperationsAndNoneOfANetworkStandsAlone) {
  const HeadCase& head = GetParam();
  auto backend = std::make_unique<ReplayWatch>(cpu_backend(1));
  ReplayWatch& watch = *backend;
  TestModel model(model_path(head), std::move(backend));
  watch.vocabulary = model.vocabulary();
  watch.hidden = model.model.config.hidden;
  DrafterContext context{.target = &model.model};
  if (head.head) {
    write_random_heads(folder_.path(), model.model.config, 0, head.markov);
    context.head = (folder_.path() / head.head).string();
  }
  TestOptions options;
  options.policy = "fixed";
  auto drafter = std::make_unique<WatchedDrafter>(make_drafter(head.drafter, context), watch);
  TestEngine engine(model, std::move(drafter), options);
  for (const Answer& answer : engine.run(requests(model.vocabulary()), 3)) {
    EXPECT_EQ(answer.error, "");
    EXPECT_EQ(answer.tokens.size(), 24U);
  }
  EXPECT_GE(watch.draft_replays, 8);
  EXPECT_EQ(watch.differing, 0);
  EXPECT_EQ(watch.unrecorded, std::set<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(Drafters, ReplayOfHeads, testing::ValuesIn(kHeadCases),
                         [](const auto& tested) { return tested.param.name(); });

/// But for other models, which are replayed as any target.
TEST(ReplayOfHeadsOfTheTable, AreAllWatched) {
  std::set<std::string_view> watched = {"draft"};
  for (const HeadCase& head : kHeadCases)
    watched.insert(head.drafter.substr(0, head.drafter.find(':')));
  for (const DrafterEntry& entry : drafters())
    EXPECT_TRUE(!entry.needs_head || watched.contains(entry.name)) << entry.name;
}

}  // namespace
}  // namespace talon::test::replay_test
