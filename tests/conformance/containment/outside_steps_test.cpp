#include <new>

#include "containment.h"
#include "draft/registry.h"
#include "runtime/named_methods.h"

// Memory that runs out while an engine is made, given a method or asked something.

namespace talon::test::outside_steps_test {
namespace {

/// `begin` makes what `work` is done on; each allocation of `work` fails once, and `after` looks at
/// what is left.
template <typename Begin, typename Work, typename After>
void fail_each_allocation(Begin begin, Work work, After after) {
  Trigger& trigger = allocation_trigger();
  bool fired = true;
  long at = 1;
  for (; fired && !testing::Test::HasFailure(); ++at) {
    SCOPED_TRACE(fmt::format("allocation {}", at));
    auto subject = begin();
    trigger.arm(at, /*for_ever=*/false);
    try {
      const FaultyAllocations scope;
      work(*subject);
    } catch (const std::bad_alloc&) {
    }
    fired = trigger.fired;
    trigger.arm(0, false);
    after(*subject);
  }
  EXPECT_GT(at, 3) << "hardly a call to fail";
}

Method head_method(const Model& model) {
  const char* const text = "eagle3:head=" TALON_TEST_DATA "/golden/stories260k/eagle3_head";
  CostProfile costs;
  costs.checks = {{1, 0, 10}, {16, 0, 12}};
  costs.levels = {{1, 2}, {16, 2}};
  return {make_drafter(text, DrafterContext{&model}), make_policy("throughput"),
          make_verifier("follow"), costs};
}

TEST_F(Containment, OfAllocationsWhereAnEngineIsMade) {
  KvCache cache(*model_->backend, kv_shape(model_->model.config, 16));
  fail_each_allocation([&] { return &cache; },
                       [&](KvCache& on) { Engine engine(model_->model, on, {}); },
                       [&](KvCache& on) { EXPECT_EQ(on.free_pages(), on.total_pages()); });
  Engine engine(model_->model, cache, {});
  engine.add({make_drafter("none", {}), make_policy("fixed"), make_verifier("follow")});
  expect_later(engine, 0);
}

/// The method wants rows that the engine has not tapped; those that run go on.
TEST_F(Containment, OfAllocationsWhereAMethodIsAdded) {
  struct Running {
    explicit Running(TestModel& model) : test(model, make_drafter("suffix", {}), {}, 16) {}
    TestEngine test;
    std::vector<Answer> answers{2};
    std::vector<SequenceId> ids;
    MethodId last = 0;
    void step() {
      for (const Progress& progress : test.engine.step()) {
        for (std::size_t i = 0; i < ids.size(); ++i) {
          if (ids[i] == progress.sequence) test.note(progress, answers[i]);
        }
      }
    }
  };
  const auto begin = [&] {
    auto running = std::make_unique<Running>(*model_);
    for (const std::size_t i : {0, 1}) running->ids.push_back(running->test.submit(requests_[i]));
    for (int i = 0; i < 3; ++i) running->step();
    return running;
  };
  const Method method = head_method(model_->model);
  const auto add = [&](Running& running) { running.last = running.test.engine.add(method); };
  const auto after = [&](Running& running) {
    const MethodId id = running.test.engine.add(method);
    EXPECT_EQ(id, running.last + 1) << "one that could not be added is not there";
    while (!running.test.engine.idle()) running.step();
    for (const std::size_t i : {0, 1}) EXPECT_EQ(running.answers[i].tokens, plain_[i].tokens);
    Request request = requests_[0];
    request.method = id;
    const Answer answer = running.test.run(request);
    EXPECT_EQ(answer.tokens, plain_[0].tokens);
    EXPECT_GT(answer.statistics.draft_ms, 0);
    EXPECT_EQ(running.test.engine.statistics().dropped, 0);
  };
  fail_each_allocation(begin, add, after);
}

/// The engine has none but those that names know.
TEST_F(Containment, OfAllocationsWhereMethodsAreNamed) {
  struct Named {
    Named(const Model& model, KvCache& cache, const DecodeSettings& settings)
        : engine(model, cache, {}), methods(engine, model, cache, settings) {}
    Engine engine;
    NamedMethods methods;
  };
  constexpr const char* kText = "ngram@policy=fixed";
  KvCache cache(*model_->backend, kv_shape(model_->model.config, 16));
  DecodeSettings settings;
  settings.drafter = "suffix";
  settings.policy = "fixed";
  const auto begin = [&] { return std::make_unique<Named>(model_->model, cache, settings); };
  const auto begin_with_one = [&] {
    auto named = begin();
    named->methods.get(kText);
    return named;
  };
  const auto after = [&](Named& named) {
    EXPECT_TRUE(named.methods.forget(kText));
    const MethodId own = named.methods.get();
    for (MethodId id = 0; id < 4; ++id) {
      if (id == own) continue;
      EXPECT_FALSE(named.engine.remove(id)) << id;
    }
    EXPECT_TRUE(named.engine.remove(own));
  };
  fail_each_allocation(
      begin, [&](Named& named) { named.methods.get(kText); }, after);
  fail_each_allocation(
      begin_with_one, [&](Named& named) { named.methods.use_heads({}); }, after);
}

}  // namespace
}  // namespace talon::test::outside_steps_test
