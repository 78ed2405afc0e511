#include "backend/route_row.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.h"

namespace talon {
namespace {

constexpr double kLeast = -std::numeric_limits<double>::infinity();

/// What the router's outputs become: shares of 1, or each on its own between 0 and 1.
std::vector<double> scores_of(const RouteArgs& args, int row) {
  std::vector<double> scores(args.scores.row(row), args.scores.row(row) + args.scores.cols);
  if (args.score == RouteArgs::Score::sigmoid) {
    for (double& score : scores) score = 1.0 / (1.0 + std::exp(-score));
    return scores;
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (double& score : scores) score /= sum;
  return scores;
}

/// The `count` largest in `order`, ties by smaller index; NaN is the smallest.
void keep_largest(const std::vector<double>& values, std::size_t count,
                  std::vector<std::int32_t>& order) {
  const auto value = [&](std::int32_t i) {
    const double found = values[static_cast<std::size_t>(i)];
    return std::isnan(found) ? kLeast : found;
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](std::int32_t a, std::int32_t b) {
                      return value(a) != value(b) ? value(a) > value(b) : a < b;
                    });
  order.resize(count);
}

std::vector<std::int32_t> numbers_below(std::size_t count) {
  std::vector<std::int32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

/// Experts of the best groups.
std::vector<std::int32_t> candidates(const RouteArgs& args, const std::vector<double>& choice) {
  const auto groups = static_cast<std::size_t>(args.groups);
  if (args.groups_used == args.groups) return numbers_below(choice.size());
  const std::size_t size = choice.size() / groups;
  std::vector<double> best;
  for (std::size_t group = 0; group < groups; ++group) {
    std::vector<double> members(choice.begin() + static_cast<std::ptrdiff_t>(group * size),
                                choice.begin() + static_cast<std::ptrdiff_t>((group + 1) * size));
    std::sort(members.begin(), members.end(), std::greater<>());
    best.push_back(members[0] + (args.group_by_two ? members[1] : 0));
  }
  std::vector<std::int32_t> used = numbers_below(groups);
  keep_largest(best, static_cast<std::size_t>(args.groups_used), used);
  std::vector<std::int32_t> experts;
  for (const std::int32_t group : used) {
    for (std::size_t i = 0; i < size; ++i) {
      experts.push_back(static_cast<std::int32_t>(static_cast<std::size_t>(group) * size + i));
    }
  }
  return experts;
}

/// What `expert`, the best of those that are not `taken`, weighs by near_best.
double share_of_near(const RouteArgs& args, int row, std::int32_t expert, std::int32_t taken) {
  const float* scores = args.scores.row(row);
  const double best = scores[expert], furthest = 2.0 * double{args.jitter};
  double sum = 0;
  for (std::int32_t i = 0; i < args.scores.cols; ++i) {
    const double score = scores[i];
    const bool is_far = (best - score) / std::max(std::abs(score), best) > furthest;
    if (i != taken && !is_far) sum += std::exp(score - best);
  }
  return 1.0 / sum;
}

void choose_near_best(const RouteArgs& args, int row) {
  const std::vector<double> scores(args.scores.row(row), args.scores.row(row) + args.scores.cols);
  std::vector<std::int32_t> best = numbers_below(scores.size());
  keep_largest(scores, 2, best);
  const double shares[] = {share_of_near(args, row, best[0], /*taken=*/-1),
                           share_of_near(args, row, best[1], best[0])};
  const int first = best[0] < best[1] ? 0 : 1;
  for (const int place : {0, 1}) {
    const int chosen = place == 0 ? first : 1 - first;
    args.weights.row(row)[place] = static_cast<float>(shares[chosen]);
    args.ids.data[2 * row + place] = best[static_cast<std::size_t>(chosen)];
  }
}

}  // namespace

void check_route(const RouteArgs& args) {
  const int experts = args.scores.cols, k = args.weights.cols;
  expects(k >= 1 && args.weights.rows == args.scores.rows && args.ids.count == args.scores.rows * k,
          "route(): room for the choice");
  expects(args.groups >= 1 && args.groups_used >= 1 && args.groups_used <= args.groups &&
              experts % args.groups == 0 && k <= experts / args.groups * args.groups_used &&
              (!args.group_by_two || args.groups_used == args.groups || experts / args.groups >= 2),
          "route(): groups that hold enough experts");
  expects(!args.bias || args.bias.cols == experts, "route(): a bias per expert");
  expects(!args.expert_scale || args.expert_scale.cols == experts, "route(): a scale per expert");
  const bool is_plain = k == 2 && args.groups == 1 && !args.bias && !args.expert_scale &&
                        !args.renormalize && args.scale == 1;
  expects(args.score != RouteArgs::Score::near_best || is_plain, "route(): two experts, no more");
}

void route_row(const RouteArgs& args, int row) {
  if (args.score == RouteArgs::Score::near_best) return choose_near_best(args, row);
  const std::vector<double> scores = scores_of(args, row);
  std::vector<double> choice = scores;
  for (std::size_t i = 0; args.bias && i < choice.size(); ++i) choice[i] += args.bias.data[i];
  std::vector<std::int32_t> chosen = candidates(args, choice);
  keep_largest(choice, static_cast<std::size_t>(args.weights.cols), chosen);
  std::sort(chosen.begin(), chosen.end());
  double sum = 0;
  for (const std::int32_t expert : chosen) sum += scores[static_cast<std::size_t>(expert)];
  const double divisor = args.renormalize ? sum + 1e-20 : 1.0;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    double weight = scores[static_cast<std::size_t>(chosen[i])] / divisor * args.scale;
    if (args.expert_scale) weight *= args.expert_scale.data[chosen[i]];
    args.weights.row(row)[i] = static_cast<float>(weight);
    args.ids.data[row * args.weights.cols + static_cast<int>(i)] = chosen[i];
  }
}

void add_first_uses(const Indices& ids, int experts, const Indices& counts) {
  expects(counts.count > 0 && ids.count % counts.count == 0,
          "count_first_uses(): as many ids for every row");
  const int k = ids.count / counts.count;
  std::vector<bool> is_used(static_cast<std::size_t>(experts));
  for (int i = 0; i < ids.count; ++i) {
    const std::int32_t id = ids.data[i];
    expects(id >= 0 && id < experts, "count_first_uses(): an expert");
    counts.data[i / k] += is_used[static_cast<std::size_t>(id)] ? 0 : 1;
    is_used[static_cast<std::size_t>(id)] = true;
  }
}

void check_experts(const ExpertArgs& args) {
  const int k = args.weights.cols;
  expects(!args.experts.empty() && args.weights.rows == args.input.rows &&
              args.ids.count == args.input.rows * k && args.out.rows == args.input.rows,
          "experts(): ids and weights of every row");
  expects(is_gate(args.gate) == (args.experts[0].gate != nullptr),
          "experts(): a matrix for a gate, or neither");
  for (int i = 0; i < args.ids.count; ++i) {
    const std::int32_t id = args.ids.data[i];
    expects(id >= 0 && static_cast<std::size_t>(id) < args.experts.size(), "experts(): an expert");
    expects(i % k == 0 || args.ids.data[i - 1] < id, "experts(): ids ascend in a row");
  }
}

}  // namespace talon
