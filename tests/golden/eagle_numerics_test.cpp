#include <fmt/format.h>
#include <gtest/gtest.h>

#include "draft/head/head_network.h"
#include "draft/head/head_weights.h"
#include "eagle_run.h"
#include "golden_data.h"
#include "io/checkpoint.h"

namespace talon::eagle_numerics_test {
namespace {

constexpr double kTolerance = 1e-4;

using Matrix = std::vector<std::vector<float>>;

std::vector<float> flat(const Json& json) {
  std::vector<float> values;
  for (const auto& row : json.get<Matrix>()) values.insert(values.end(), row.begin(), row.end());
  return values;
}

void expect_near(std::span<const float> ours, std::span<const float> theirs, const char* what) {
  ASSERT_EQ(ours.size(), theirs.size()) << what;
  double worst = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(ours[i]) - theirs[i]));
  }
  EXPECT_LT(worst, kTolerance) << what;
}

/// A head with an own cache, fed with recorded inputs.
class RecordedPasses {
 public:
  explicit RecordedPasses(const std::string& head)
      : backend_(*eagle_target().backend),
        weights_(
            load_head(open_checkpoint(std::string(TALON_TEST_DATA) + "/golden/stories260k/" + head),
                      eagle_target().model, {WeightLayout::f32, {}})),
        cache_(backend_, within_budget(cache_shape(weights_.config), std::size_t{1} << 20)),
        network_(weights_, {}, kRows, cache_.total_pages() * kPageRows),
        pairs_(cache_.start({}, false)),
        inputs_(backend_.allocate(kRows, weights_.config.feature_width)),
        outputs_(backend_.allocate(kRows, weights_.config.hidden)) {}

  const HeadWeights& weights() const { return weights_; }

  /// Pass over target rows: causal, and kept.
  std::vector<float> run_target_rows(std::span<const TokenId> tokens,
                                     std::span<const float> features) {
    in_flight_ = {};
    const auto outputs = run(tokens, features, true, {});
    std::vector<NodeId> rows;
    for (std::size_t i = 0; i < tokens.size(); ++i) rows.push_back(static_cast<NodeId>(i));
    pairs_.keep(rows, tokens);
    return outputs;
  }

  /// Pass over one level: row i follows the row in flight parents[i] (-1: the newest pair).
  std::vector<float> run_tree_rows(std::span<const TokenId> tokens, std::span<const float> features,
                                   std::span<const NodeId> parents) {
    return run(tokens, features, false, parents);
  }

  RowChildren top_children(int first_row, int rows, int count) {
    return network_.top_children(outputs_.view().row_range(first_row, rows), count, {});
  }

 private:
  static constexpr int kRows = 32;
  static KvShape cache_shape(const HeadConfig& head) {
    return {1, head.kv_heads, head.head_dim, 1, KvType::f32};
  }

  std::vector<float> run(std::span<const TokenId> tokens, std::span<const float> features,
                         bool from_target, std::span<const NodeId> parents) {
    const int rows = static_cast<int>(tokens.size());
    const int length = pairs_.length();
    EXPECT_TRUE(pairs_.reserve(static_cast<int>(in_flight_.size()) + rows));
    AttentionLayout layout;
    layout.pages.push_back(pairs_.pages());
    for (int i = 0; i < rows; ++i) {
      AttentionRow row;
      row.slot = pairs_.slot(static_cast<int>(in_flight_.size()) + i);
      row.extra_begin = static_cast<std::int32_t>(layout.extra.size());
      row.contiguous = from_target ? length + i + 1 : length;
      row.position = from_target
                         ? length + i
                         : place_in_tree(parents[static_cast<std::size_t>(i)], row.slot, layout);
      row.visible = row.position + 1;
      layout.rows.push_back(row);
    }
    for (int i = 0; !from_target && i < rows; ++i) {
      in_flight_.push_back(
          {layout.rows[static_cast<std::size_t>(i)].slot, parents[static_cast<std::size_t>(i)]});
    }
    const int width = from_target ? weights_.config.feature_width : weights_.config.hidden;
    const View input = inputs_.rows(rows).col_range(0, width);
    backend_.upload(features, input);
    const View output = outputs_.rows(rows);
    network_.forward({tokens, &layout, &cache_.store(), input, from_target, output});
    std::vector<float> values(tokens.size() * static_cast<std::size_t>(weights_.config.hidden));
    backend_.download(output, values);
    return values;
  }

  /// Lists the ancestors, then the row; returns its position.
  int place_in_tree(NodeId parent, Slot slot, AttentionLayout& layout) {
    std::vector<Slot> path = {slot};
    for (NodeId node = parent; node >= 0;
         node = in_flight_[static_cast<std::size_t>(node)].parent) {
      path.push_back(in_flight_[static_cast<std::size_t>(node)].slot);
    }
    layout.extra.insert(layout.extra.end(), path.rbegin(), path.rend());
    return pairs_.length() + static_cast<int>(path.size()) - 1;
  }

  struct InFlight {
    Slot slot;
    NodeId parent;
  };
  Backend& backend_;
  HeadWeights weights_;
  KvCache cache_;
  HeadNetwork network_;
  KvSequence pairs_;
  std::vector<InFlight> in_flight_;
  Buffer inputs_, outputs_;
};

/// Row i's last ancestor among the rows of earlier levels, from its row of the recorded mask.
std::vector<NodeId> parents_of(const Json& mask, int earlier_rows) {
  std::vector<NodeId> parents;
  for (const auto& row : mask.get<std::vector<std::vector<int>>>()) {
    NodeId parent = -1;
    for (NodeId i = 0; i < earlier_rows; ++i) {
      if (row[static_cast<std::size_t>(i)] != 0) parent = i;
    }
    parents.push_back(parent);
  }
  return parents;
}

void compare_top(RecordedPasses& passes, const Json& pass, int rows) {
  const int recorded = static_cast<int>(pass.at("top10_logp").size());
  const RowChildren ours = passes.top_children(rows - recorded, recorded, 10);
  expect_near(ours.log_p, flat(pass.at("top10_logp")), "top10_logp");
  std::vector<TokenId> ids;
  for (const auto& row : pass.at("top10_target_ids").get<std::vector<std::vector<TokenId>>>()) {
    ids.insert(ids.end(), row.begin(), row.end());
  }
  EXPECT_EQ(ours.token, ids);
}

class EagleNumerics : public testing::TestWithParam<int> {
 protected:
  const Json golden = read_golden_json("stories260k/numerics.json.zst")
                          .at("cases")
                          .at(static_cast<std::size_t>(GetParam()));
};

TEST_P(EagleNumerics, TheTargetsFeaturesAreTheRecordedOnes) {
  const auto tokens = golden.at("prompt_ids").get<std::vector<TokenId>>();
  std::vector<FeatureTap> taps = {FeatureTap{}};
  for (const int layer : golden.at("tap_layer_inputs")) taps.push_back({layer});
  EagleTarget& target = eagle_target();
  Target forward(target.model, *target.cache, static_cast<int>(tokens.size()), taps);
  KvSequence cache = target.cache->start({}, false);
  ASSERT_TRUE(cache.reserve(static_cast<int>(tokens.size())));
  const SequenceRows rows{&cache, tokens, {}, SequenceRows::Logits::last};
  const ForwardResult result = forward.forward(std::span(&rows, 1));
  const Json& recorded = golden.at("target");
  const auto download = [&](const View& view) {
    std::vector<float> values(static_cast<std::size_t>(view.rows) *
                              static_cast<std::size_t>(view.cols));
    target.backend->download(view, values);
    return values;
  };
  const int hidden = target.model.config.hidden;
  expect_near(download(result.features.col_range(0, hidden)), flat(recorded.at("final_hidden")),
              "final_hidden");
  expect_near(download(result.logits), recorded.at("last_logits").get<std::vector<float>>(),
              "last_logits");
  for (std::size_t tap = 0; recorded.at("taps").is_array() && tap < 3; ++tap) {
    expect_near(download(result.features.col_range(static_cast<int>(tap + 1) * hidden, hidden)),
                flat(recorded.at("taps")[tap]), "taps");
  }
}

TEST_P(EagleNumerics, EveryDraftPassGivesTheRecordedOutputs) {
  RecordedPasses passes(golden.at("head"));
  for (const Json& pass : golden.at("draft_passes")) {
    SCOPED_TRACE(fmt::format("round {}, pass {}", pass.at("round").get<int>(),
                             pass.at("pass_index").get<int>()));
    const auto tokens = pass.at("tokens").get<std::vector<TokenId>>();
    const auto input = flat(pass.at("input_hidden"));
    const int index = pass.at("pass_index");
    const int rows = static_cast<int>(tokens.size());
    const auto ours =
        index == 0 ? passes.run_target_rows(tokens, input)
                   : passes.run_tree_rows(tokens, input,
                                          parents_of(pass.at("tree_mask"), rows * (index - 1)));
    expect_near(ours, flat(pass.at("output_hidden")), "output_hidden");
    compare_top(passes, pass, rows);
  }
}

std::string case_name(const testing::TestParamInfo<int>& info) {
  constexpr const char* kNames[] = {"Eagle2", "Eagle3", "Eagle3FullVocabulary"};
  return kNames[info.param];
}
INSTANTIATE_TEST_SUITE_P(Heads, EagleNumerics, testing::Values(0, 1, 2), case_name);

}  // namespace
}  // namespace talon::eagle_numerics_test
