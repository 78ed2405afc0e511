#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "draft/lookup/jacobi_window.h"
#include "draft/lookup/lookahead.h"
#include "draft/lookup/ngram_pool.h"
#include "eagle_run.h"
#include "golden_data.h"

namespace talon::lookahead_golden_test {
namespace {

Json golden() { return read_golden_json("methods/lookahead.json.zst"); }
std::vector<TokenId> tokens_of(const Json& json) { return json.get<std::vector<TokenId>>(); }

/// in_order: as they are recorded, else ascending, as a pool without a limit is.
void expect_pool(const NgramPool& pool, const Json& expected, bool in_order) {
  for (const Json& pair : expected) {
    const auto entries = pool.after(pair.at(0).get<TokenId>());
    std::vector<NgramPool::Entry> found(entries.begin(), entries.end());
    if (!in_order) std::ranges::sort(found);
    EXPECT_EQ(found, pair.at(1).get<std::vector<NgramPool::Entry>>()) << pair.dump();
  }
}

TEST(LookaheadGolden, ThePoolIsTheOfficialOneAfterEveryOperation) {
  int compared = 0;
  const Json recorded = golden();
  for (const Json& functions : recorded.at("pool_functions")) {
    const int ngram = functions.at("N"), entries = functions.at("G");
    NgramPool pool(ngram, entries);
    for (const Json& op : functions.at("ops")) {
      const std::string name = op.at("op");
      SCOPED_TRACE(op.dump());
      if (name == "fill_pool_with_prompt") {
        pool.add_all(tokens_of(op.at("prompt")));
      } else if (name == "append_new_generated_pool") {
        pool.add_all(tokens_of(op.at("tokens")));
      } else {
        const auto levels = op.at("window").get<std::vector<std::vector<TokenId>>>();
        const auto drawn = tokens_of(op.at("new_results"));
        for (std::size_t column = 0; column < drawn.size(); ++column) {
          NgramPool::Entry following;
          for (std::size_t level = 1; level < levels.size(); ++level) {
            following.push_back(levels[level][column]);
          }
          following.push_back(drawn[column]);
          const TokenId first =
              column == 0 ? op.at("last_token").get<TokenId>() : levels[0][column - 1];
          pool.add(first, std::move(following));
        }
      }
      if (op.contains("pool")) expect_pool(pool, op.at("pool"), entries >= 0);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 28);
}

/// All recorded runs: with and without n-grams of the text, whose history is faulty there, without
/// a limit of guesses, which turns them off, and after a prompt of one token.
TEST(LookaheadGolden, EveryStepEmitsWhatTheOfficialOneDoes) {
  int runs = 0;
  const Json recorded = golden();
  for (const Json& run : recorded.at("runs")) {
    LookaheadOptions options;
    options.window = run.at("W");
    options.ngram = run.at("N");
    options.guesses = run.at("G");
    options.from_text = run.at("pool_from_prompt");
    options.official = true;
    options.first_window = tokens_of(run.at("init_window"));
    SCOPED_TRACE(fmt::format("prompt {}, window {}, n-grams of the text {}",
                             run.at("prompt").get<int>(), options.window, options.from_text));
    const auto prompt = tokens_of(run.at("prompt_ids"));
    const auto emitted_then = run.at("emitted").get<std::vector<std::ptrdiff_t>>();
    const auto drafter = make_lookahead_drafter(options);
    const auto rounds =
        run_eagle(eagle_target(), *drafter, std::span(prompt).first(prompt.size() - 1),
                  static_cast<int>(emitted_then.size()), prompt.back());
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      ASSERT_EQ(std::ssize(rounds[i].path), emitted_then[i]) << "step " << i;
    }
    ++runs;
  }
  EXPECT_EQ(runs, 31);
}

/// Rows of a pass and the window itself, where it was traced.
TEST(LookaheadGolden, TheWindowMovesAsTheOfficialOne) {
  int compared = 0;
  const Json recorded = golden();
  for (const Json& run : recorded.at("runs")) {
    const Json trace = run.value("trace", Json::array());
    if (trace.empty()) continue;
    const int ngram = run.at("N");
    JacobiWindow window(run.at("W"), ngram);
    NgramPool pool(ngram, run.at("G").get<int>());
    window.begin(tokens_of(run.at("init_window")));
    for (const Json& step : trace) {
      std::vector<std::vector<TokenId>> levels;
      for (const Json& level : step.at("window")) {
        if (!level.is_null()) levels.push_back(tokens_of(level));
      }
      ASSERT_EQ(window.levels(), levels) << "position " << step.at("position");
      if (step.at("guesses").is_array()) {
        EXPECT_EQ(window.is_full(), step.at("fill_level") == ngram - 2);
      }
      window.advance(step.at("last_token").get<TokenId>(), tokens_of(step.at("inp_argmax")), pool);
      ++compared;
    }
  }
  EXPECT_GE(compared, 200);
}

}  // namespace
}  // namespace talon::lookahead_golden_test
