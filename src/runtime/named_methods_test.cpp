#include "runtime/named_methods.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "backend/wrap/forwarding.h"
#include "core/error.h"
#include "io/test_files.h"
#include "runtime/cache_budget.h"
#include "runtime/loaded_model.h"

namespace talon::named_methods_test {
namespace {

constexpr const char* kHead = "eagle3:head=" TALON_TEST_DATA "/golden/stories260k/eagle3_head";

TEST(NamedMethods, AHeadHoldsAsManyPositionsAsTheTarget) {
  const LoadedModel loaded = open_model({.model = TALON_TEST_DATA "/models/stories260K.bin"});
  constexpr std::size_t kTexts = 8, kLength = 240;
  const std::size_t positions = kTexts * positions_for(kLength);
  const auto cache =
      open_cache(loaded.model, {kv_cache_bytes(loaded.model.config, KvType::f16, positions)});
  DecodeSettings settings;
  settings.drafter = kHead;
  settings.policy = "fixed";
  Engine engine(loaded.model, *cache, engine_options(settings, loaded.model, nullptr));
  NamedMethods methods(engine, loaded.model, *cache, settings);
  for (std::size_t i = 0; i < kTexts; ++i) {
    Request request;
    request.prompt.assign(kLength - 20, static_cast<TokenId>(300 + i));
    request.max_new = 20;
    engine.submit(request);
  }
  int together = 0;
  while (!engine.idle()) {
    engine.step();
    together = std::max(together, engine.load().running);
  }
  EXPECT_EQ(together, static_cast<int>(kTexts));
  EXPECT_EQ(engine.statistics().lost_draft_rows, 0);
}

/// Tokens of one answer; between its steps `meanwhile` is called.
std::vector<TokenId> answer(
    Engine& engine, MethodId method, const std::function<void()>& meanwhile = [] {}) {
  Request request;
  request.prompt = {1, 403, 407, 261, 378, 432};
  request.max_new = 60;
  request.method = method;
  engine.submit(request);
  std::vector<TokenId> tokens;
  while (!engine.idle()) {
    for (const Progress& progress : engine.step()) {
      tokens.insert(tokens.end(), progress.tokens.begin(), progress.tokens.end());
    }
    meanwhile();
  }
  return tokens;
}

TEST(NamedMethods, NewHeadsAreForNewRequestsAndOldOnesGoWithTheirs) {
  const LoadedModel loaded = open_model({.model = TALON_TEST_DATA "/models/stories260K.bin"});
  const auto cache = open_cache(loaded.model);
  DecodeSettings settings;
  settings.drafter = "eagle3";
  settings.policy = "fixed";
  int asked = 0;
  const auto heads = [&asked](std::string_view) {
    ++asked;
    return std::string(TALON_TEST_DATA "/golden/stories260k/eagle3_head");
  };
  settings.heads = heads;
  Engine engine(loaded.model, *cache, engine_options(settings, loaded.model, nullptr));
  NamedMethods methods(engine, loaded.model, *cache, settings);
  const MethodId old = methods.get();
  const std::vector<TokenId> tokens = answer(engine, old);
  std::optional<MethodId> changed;
  EXPECT_EQ(answer(engine, old,
                   [&] {
                     if (changed) return;
                     methods.use_heads(heads);
                     changed = methods.get();
                     EXPECT_NE(*changed, old);
                     EXPECT_FALSE(engine.remove(old)) << "its request has it";
                   }),
            tokens);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(answer(engine, methods.get()), tokens);
  methods.get();
  EXPECT_TRUE(answer(engine, old).empty()) << "it is gone";
}

TEST(NamedMethods, CostsOfJoinedNetworksFollowThemToTheirPlacesInAnotherDrafter) {
  CostProfile measured;
  measured.networks.resize(2);
  measured.networks[0].source = 1;
  measured.networks[1].source = 2;
  const CostProfile found = costs_in("suffix+eagle3:nodes=8+draft:levels=3,model=self",
                                     "draft:model=self+eagle3", measured);
  ASSERT_EQ(found.networks.size(), 2u);
  EXPECT_EQ(found.networks[0].source, 4u);
  EXPECT_EQ(found.networks[1].source, 2u);
}

/// Counts matrices that are loaded and forwards.
class CountingBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  std::unique_ptr<Weight> load_weight(const StoredMatrix& matrix, WeightLayout layout) override {
    ++loaded;
    return inner_->load_weight(matrix, layout);
  }
  std::unique_ptr<PreparedLayout> prepare(const AttentionLayout& layout) override {
    ++forwards;
    return inner_->prepare(layout);
  }
  int loaded = 0, forwards = 0;
};

/// Methods that strangers ask for.
struct AskedMethods {
  explicit AskedMethods(const char* policy) {
    settings.drafter = "suffix";
    settings.policy = policy;
    settings.shares_costs = true;
    settings.heads = [](std::string_view kind) {
      return kind == "eagle3" ? TALON_TEST_DATA "/golden/stories260k/eagle3_head" : "";
    };
    engine.emplace(model, *cache, engine_options(settings, model, nullptr));
    methods.emplace(*engine, model, *cache, settings);
  }
  std::string path = TALON_TEST_DATA "/models/stories260K.bin";
  CountingBackend backend{make_backend({.model = path})};
  Model model = load_model(open_checkpoint(path), backend);
  std::unique_ptr<KvCache> cache = open_cache(model);
  DecodeSettings settings;
  std::optional<Engine> engine;
  std::optional<NamedMethods> methods;
};

TEST(NamedMethods, WeightsAreLoadedOnceWhateverIsMadeOfThem) {
  AskedMethods asked("fixed");
  for (const auto& [first, others] : std::map<std::string, std::vector<std::string>>{
           {"eagle3", {"eagle3:nodes=8", "eagle3:topk=2,levels=3,window=64+suffix"}},
           {"draft:model=self", {"draft:model=self,levels=3", "suffix+draft:model=self"}}}) {
    const int before = asked.backend.loaded;
    asked.methods->get(first);
    const int once = asked.backend.loaded;
    EXPECT_GT(once, before);
    for (const std::string& other : others) {
      EXPECT_EQ(answer(*asked.engine, asked.methods->get(other)),
                answer(*asked.engine, asked.methods->get("none")));
    }
    EXPECT_EQ(asked.backend.loaded, once) << first;
    answer(*asked.engine, asked.methods->get());
    for (const std::string& other : others) EXPECT_TRUE(asked.methods->forget(other));
    EXPECT_TRUE(asked.methods->forget(first));
    asked.methods->get(first);
    EXPECT_EQ(asked.backend.loaded - once, once - before) << "they go with the last";
  }
}

TEST(NamedMethods, WhatAPolicyReadsIsReadOnceAndGoesWithTheLastThatHasIt) {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "predictor.safetensors";
  std::filesystem::copy_file(TALON_TEST_DATA "/policies/ada_eagle.safetensors", file);
  AskedMethods asked("fixed");
  const std::string policy = "@policy=ada_eagle:predictor=" + file.string();
  const std::string first = "eagle3" + policy, second = "eagle3:nodes=8" + policy;
  asked.methods->get(first);
  std::filesystem::remove(file);
  EXPECT_EQ(answer(*asked.engine, asked.methods->get(second)),
            answer(*asked.engine, asked.methods->get("none")));
  answer(*asked.engine, asked.methods->get());
  EXPECT_TRUE(asked.methods->forget(first));
  asked.methods->get(first);
  answer(*asked.engine, asked.methods->get());
  for (const std::string& text : {first, second}) EXPECT_TRUE(asked.methods->forget(text));
  EXPECT_THROW(asked.methods->get(first), Error);
}

TEST(NamedMethods, CostsAreMeasuredOnceOfTheSameWeights) {
  AskedMethods asked("throughput");
  const int own = asked.backend.forwards;
  EXPECT_GT(own, 0);
  asked.methods->get("suffix:nodes=8");
  asked.methods->get("ngram+suffix");
  EXPECT_EQ(asked.backend.forwards, own);
  asked.methods->get("eagle3:nodes=8");
  const int with_head = asked.backend.forwards;
  EXPECT_GT(with_head, own);
  asked.methods->get("eagle3:nodes=9+ngram");
  EXPECT_TRUE(asked.methods->forget("eagle3:nodes=8"));
  EXPECT_TRUE(asked.methods->forget("eagle3:nodes=9+ngram"));
  asked.methods->get("eagle3:nodes=8");
  EXPECT_EQ(asked.backend.forwards, with_head);
}

/// Forwards that are run to measure what a method with the head at `head` costs, where the costs
/// that lie in `kept` are known.
int forwards_to_measure(const std::filesystem::path& head, const std::filesystem::path& kept) {
  const std::string path = TALON_TEST_DATA "/models/stories260K.bin";
  CountingBackend backend(make_backend({.model = path}));
  const Model model = load_model(open_checkpoint(path), backend);
  const auto cache = open_cache(model);
  DecodeSettings settings;
  settings.drafter = "eagle3";
  settings.policy = "throughput";
  settings.costs = {kept, "a machine"};
  settings.heads = [&](std::string_view) { return head.string(); };
  Engine engine(model, *cache, engine_options(settings, model, nullptr));
  const NamedMethods methods(engine, model, *cache, settings);
  return backend.forwards;
}

TEST(NamedMethods, CostsThatWereKeptAreThoseOfTheSameHead) {
  namespace fs = std::filesystem;
  const test::TemporaryFolder folder;
  const fs::path first = folder.path() / "first", second = folder.path() / "second";
  for (const fs::path& head : {first, second})
    fs::copy(TALON_TEST_DATA "/golden/stories260k/eagle3_head", head);
  const fs::path kept = folder.path() / "costs";
  fs::create_directory(kept);
  for (int attempt = 0; attempt < 50 && fs::is_empty(kept); ++attempt)
    EXPECT_GT(forwards_to_measure(first, kept), 0);
  if (fs::is_empty(kept)) GTEST_SKIP() << "nothing is kept while the machine is disturbed";
  EXPECT_EQ(forwards_to_measure(first, kept), 0);
  EXPECT_GT(forwards_to_measure(second, kept), 0);
  std::ofstream(first / "of_another_size") << "x";
  EXPECT_GT(forwards_to_measure(first, kept), 0);
}

TEST(NamedMethods, ADrafterThatIsMadeToBeMeasuredDoesNotStay) {
  AskedMethods asked("throughput");
  int made = 0;
  asked.methods->use_heads([&made](std::string_view) {
    ++made;
    return std::string(TALON_TEST_DATA "/golden/stories260k/eagle3_head");
  });
  asked.methods->get("eagle3:nodes=8");
  EXPECT_EQ(made, 2) << "with the usual options to be measured, too";
  asked.methods->get("eagle3@policy=fixed");
  EXPECT_EQ(made, 3) << "its cache was not kept";
}

TEST(NamedMethods, HeadsThatCannotBeUsedChangeNothing) {
  const LoadedModel loaded = open_model({.model = TALON_TEST_DATA "/models/stories260K.bin"});
  const auto cache = open_cache(loaded.model);
  DecodeSettings settings;
  settings.drafter = "eagle3";
  settings.heads = [](std::string_view) {
    return std::string(TALON_TEST_DATA "/golden/stories260k/eagle3_head");
  };
  Engine engine(loaded.model, *cache, engine_options(settings, loaded.model, nullptr));
  NamedMethods methods(engine, loaded.model, *cache, settings);
  const MethodId before = methods.get();
  EXPECT_THROW(methods.use_heads([](std::string_view) { return "/no/such/head"; }), Error);
  EXPECT_EQ(methods.get(), before);
  EXPECT_EQ(methods.get("eagle3@policy=eagle2"), methods.get("eagle3@policy=eagle2"));
}

TEST(NamedMethods, AMethodThatIsRefusedLeavesNoHeadBehind) {
  const LoadedModel loaded = open_model({.model = TALON_TEST_DATA "/models/stories260K.bin"});
  const auto cache = open_cache(loaded.model);
  DecodeSettings settings;
  settings.drafter = "none";
  int asked = 0;
  settings.heads = [&asked](std::string_view) {
    ++asked;
    return std::string(TALON_TEST_DATA "/golden/stories260k/eagle3_head");
  };
  Engine engine(loaded.model, *cache, engine_options(settings, loaded.model, nullptr));
  NamedMethods methods(engine, loaded.model, *cache, settings);
  const auto refused = {"eagle3@policy=nosuch", "eagle3@policy=fixed@verify=nosuch"};
  for (const char* method : refused) EXPECT_THROW(methods.get(method), Error);
  EXPECT_EQ(asked, 2) << "each has loaded it";
  methods.get("eagle3@policy=fixed");
  for (const char* method : refused) EXPECT_THROW(methods.get(method), Error);
  EXPECT_EQ(asked, 3) << "a method has it";
}

TEST(NamedMethods, AWindowThatNoTreeOfTheEngineHoldsIsRefused) {
  const LoadedModel loaded = open_model({.model = TALON_TEST_DATA "/models/stories260K.bin"});
  const auto cache = open_cache(loaded.model);
  DecodeSettings settings;
  settings.drafter = "none";
  settings.policy = "fixed";
  settings.max_nodes = 26;
  Engine engine(loaded.model, *cache, engine_options(settings, loaded.model, nullptr));
  NamedMethods methods(engine, loaded.model, *cache, settings);
  EXPECT_THROW(methods.get("lookahead"), UsageError);
  EXPECT_NO_THROW(methods.get("lookahead:window=6"));
}

TEST(NamedMethods, ARuleThatComparesCodesIsRefusedWhereThereAreNone) {
  AskedMethods asked("fixed");
  EXPECT_THROW(asked.methods->get("suffix@verify=lantern:k=10,lambda=2"), UsageError);
}

/// Asks for methods by their numbers.
struct AskedForRecent : AskedMethods {
  AskedForRecent() : AskedMethods("fixed") {}
  static std::string text(int nodes) { return fmt::format("ngram:nodes={}", nodes); }
  MethodId get(int nodes) { return recent.get(text(nodes)); }
  bool knows(int nodes) const { return methods->knows(text(nodes)); }
  void hold(MethodId method) {
    Request request;
    request.prompt = {1, 403};
    request.method = method;
    engine->submit(request);  // it waits for a step that does not come
  }
  static constexpr int kMost = static_cast<int>(RecentMethods::kMost);
  RecentMethods recent{*methods};
};

TEST(RecentMethods, StayUnlessOthersWereAskedForLaterAndNoRequestHasThem) {
  AskedForRecent asked;
  const MethodId first = asked.get(1);
  asked.hold(asked.get(2));
  for (int nodes = 3; nodes <= asked.kMost; ++nodes) asked.get(nodes);
  EXPECT_EQ(asked.get(1), first);
  EXPECT_EQ(asked.recent.get(""), asked.methods->get());
  asked.get(asked.kMost + 1);
  EXPECT_FALSE(asked.recent.are_too_many());
  EXPECT_FALSE(asked.knows(3));
  for (const int nodes : {1, 2, 4, asked.kMost + 1}) EXPECT_TRUE(asked.knows(nodes)) << nodes;
}

TEST(RecentMethods, AreTooManyWhereRequestsHaveAllOthers) {
  AskedForRecent asked;
  for (int nodes = 1; nodes <= asked.kMost; ++nodes) asked.hold(asked.get(nodes));
  EXPECT_THROW(asked.recent.get("nosuch"), UsageError);
  EXPECT_FALSE(asked.recent.are_too_many());
  asked.get(asked.kMost + 1);
  EXPECT_TRUE(asked.recent.are_too_many());
  EXPECT_TRUE(asked.knows(asked.kMost + 1));
  asked.recent.forget_newest();
  EXPECT_FALSE(asked.recent.are_too_many());
  EXPECT_FALSE(asked.knows(asked.kMost + 1));
  for (int nodes = 1; nodes <= asked.kMost; ++nodes) EXPECT_TRUE(asked.knows(nodes)) << nodes;
}

}  // namespace
}  // namespace talon::named_methods_test
