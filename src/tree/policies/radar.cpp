#include "core/error.h"
#include "core/philox.h"
#include "tree/policies/policies.h"
#include "tree/policies/policy_of.h"
#include "tree/policies/radar_network.h"
#include "tree/policies/tree_limits.h"

namespace talon {
namespace {

/// Keeps the policy's random numbers apart from those that choose the text.
constexpr std::uint32_t kRadarChoice = 0x52414441;

struct RadarOptions {
  TreeLimits limits;
  bool draws;
  std::uint64_t seed;
  RadarNetwork network;
};

/// RADAR, arXiv:2512.14069: before each expansion a trained network says stop or go on, from the
/// scores of the beam. Decisions are drawn, as in the official code, or the likelier one.
class RadarState : public PolicyState {
 public:
  explicit RadarState(const RadarOptions& options)
      : options_(options), network_(options.network), random_(options.seed, kRadarChoice) {}

  TreePlan plan(const PlanContext& context) override {
    network_.begin_round();
    position_ = static_cast<std::uint64_t>(context.position);
    calls_ = 0;
    return options_.limits.within(context);
  }

  int expand(std::span<const float> path_log_p) override {
    if (path_log_p.empty()) return 0;
    const auto state = radar_state(path_log_p);
    const double uniform =
        options_.draws ? random_.uniform(position_, RandomUse::draft, calls_++) : 0.5;
    const bool stops = uniform < network_.stop_chance(state);
    return stops ? 0 : static_cast<int>(path_log_p.size());
  }

 private:
  const RadarOptions& options_;
  RadarRun network_;
  PositionRandom random_;
  std::uint64_t position_ = 0;
  std::uint32_t calls_ = 0;
};

std::unique_ptr<TreePolicy> make_radar(Options& options, const PolicyContext&) {
  return std::make_unique<PolicyOf<RadarState, RadarOptions>>(
      RadarOptions{read_limits(options), options.whole("draw") == 1,
                   static_cast<std::uint64_t>(options.whole("seed")),
                   RadarNetwork(open_checkpoint(options.text("weights")))});
}

}  // namespace

PolicyEntry radar_policy() {
  return {.name = "radar",
          .summary =
              "RADAR (arXiv:2512.14069): a network that sees the beam says stop or go on "
              "before each level",
          .options =
              joined({{"weights", FreeText{"PATH"}, "",
                       "the network that talon train policy made for the model",
                       /*required=*/true},
                      {"draw", WholeNumber{0, 1}, "1", "decisions are drawn; 0: the likelier one"},
                      {"seed", WholeNumber{0, 1 << 30}, "1", "of these draws"}},
                     limit_options({10, 8, 59})),
          .make = make_radar};
}

}  // namespace talon
