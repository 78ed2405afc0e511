#include "backend/cpu/experts/cpu_experts.h"

#include <algorithm>

#include "backend/route_row.h"
#include "core/error.h"

namespace talon::cpu {
namespace {

View matrix_in(Scratch& memory, int rows, int cols) {
  const std::size_t values = static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
  return {memory.reserve<float>(values), rows, cols, cols};
}

/// Of what the up matrix gives and, before it, the gate.
int between_cols(const ExpertArgs& args) {
  return (is_gate(args.gate) ? 2 : 1) * args.experts[0].up->rows;
}

View bias_of(const View& biases, int expert) {
  return biases ? biases.row_range(expert, 1) : View{};
}

}  // namespace

Experts::Experts(const Kernels& kernels, ThreadPool& pool, Linear& linear)
    : kernels_(kernels), pool_(pool), linear_(linear) {}

void Experts::sort_rows(const ExpertArgs& args) {
  std::vector<int> count(args.experts.size(), 0);
  for (int i = 0; i < args.ids.count; ++i) ++count[static_cast<std::size_t>(args.ids.data[i])];
  groups_.clear();
  std::vector<int> next(args.experts.size(), 0);
  int first = 0;
  for (std::size_t expert = 0; expert < count.size(); ++expert) {
    next[expert] = first;
    if (count[expert] > 0) groups_.push_back({static_cast<int>(expert), first, count[expert]});
    first += count[expert];
  }
  place_.resize(static_cast<std::size_t>(args.ids.count));
  for (int i = 0; i < args.ids.count; ++i) {
    place_[static_cast<std::size_t>(i)] = next[static_cast<std::size_t>(args.ids.data[i])]++;
  }
}

template <typename Body>
void Experts::each_row(int rows, const Body& body) {
  if (rows == 1) return body(0);
  const auto end = static_cast<std::size_t>(rows);
  pool_.run([&](int) {
    for (std::size_t row; (row = pool_.next(0)) < end;) body(static_cast<int>(row));
  });
}

/// The rows that the groups read, one after the other.
View Experts::gather(const ExpertArgs& args) {
  const View rows = matrix_in(input_, args.ids.count, args.input.cols);
  const int k = args.weights.cols;
  each_row(args.input.rows, [&](int row) {
    const float* from = args.input.row(row);
    for (int i = 0; i < k; ++i) {
      float* to = rows.row(place_[static_cast<std::size_t>(row * k + i)]);
      const float factor = args.weigh_input ? args.weights.row(row)[i] : 1.0F;
      for (int col = 0; col < rows.cols; ++col) to[col] = from[col] * factor;
    }
  });
  return rows;
}

/// All gates and ups in one region, then all downs.
void Experts::multiply(const ExpertArgs& args, const View& input) {
  const int width = args.experts[0].up->rows;
  const bool gated = is_gate(args.gate);
  const auto expert_of = [&](const Group& group) -> const ExpertWeights& {
    return args.experts[static_cast<std::size_t>(group.expert)];
  };
  const bool one_row = args.input.rows == 1 && !args.weigh_input;  // which all groups share
  projections_.clear();
  projections_.reserve(2 * groups_.size());
  calls_.clear();
  for (const Group& group : groups_) {
    const View gates = gates_.row_range(group.first, group.count);
    if (gated) {
      projections_.push_back({expert_of(group).gate, gates.col_range(0, width),
                              bias_of(args.gate_bias, group.expert)});
    }
    projections_.push_back({expert_of(group).up, gates.col_range(gates.cols - width, width),
                            bias_of(args.up_bias, group.expert)});
    if (one_row) continue;
    calls_.push_back({.input = input.row_range(group.first, group.count),
                      .outputs = std::span(projections_).last(gated ? 2 : 1)});
  }
  if (one_row) calls_.push_back({.input = args.input, .outputs = projections_});
  linear_.run_all(calls_);

  projections_.clear();
  calls_.clear();
  for (const Group& group : groups_) {
    projections_.push_back({expert_of(group).down, outputs_.row_range(group.first, group.count),
                            bias_of(args.down_bias, group.expert)});
    calls_.push_back({.input = gates_.row_range(group.first, group.count),
                      .transform = args.gate,
                      .outputs = std::span(projections_).last(1)});
  }
  linear_.run_all(calls_);
}

void Experts::add_up(const ExpertArgs& args) {
  const int k = args.weights.cols;
  each_row(args.input.rows, [&](int row) {
    float* out = args.out.row(row);
    std::fill_n(out, args.out.cols, 0.0F);
    for (int i = 0; i < k; ++i) {
      const float weight = args.weigh_input ? 1.0F : args.weights.row(row)[i];
      const float* result = outputs_.row(place_[static_cast<std::size_t>(row * k + i)]);
      kernels_.add_scaled(out, result, weight, args.out.cols, out);
    }
  });
}

void Experts::run(const ExpertArgs& args) {
  check_experts(args);
  if (args.input.rows == 0) return;
  sort_rows(args);
  gates_ = matrix_in(between_, args.ids.count, between_cols(args));
  outputs_ = matrix_in(results_, args.ids.count, args.out.cols);
  const bool one_row = args.input.rows == 1 && !args.weigh_input;
  multiply(args, one_row ? args.input : gather(args));
  add_up(args);
}

}  // namespace talon::cpu
