#pragma once

#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_linear.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/scratch.h"
#include "core/thread_pool.h"

namespace talon::cpu {

/// experts() of the CPU backend: rows are sorted by expert, each expert multiplies its rows
/// together, and every row adds up its results in the order of its list.
class Experts {
 public:
  Experts(const Kernels& kernels, ThreadPool& pool, Linear& linear);
  void run(const ExpertArgs& args);

 private:
  /// Rows of one expert: consecutive rows of the working memory.
  struct Group {
    int expert;
    int first;
    int count;
  };
  void sort_rows(const ExpertArgs& args);
  View gather(const ExpertArgs& args);
  void multiply(const ExpertArgs& args, const View& input);
  void add_up(const ExpertArgs& args);
  /// body(row) for each of `rows` rows, by whichever worker is free.
  template <typename Body>
  void each_row(int rows, const Body& body);

  const Kernels& kernels_;
  ThreadPool& pool_;
  Linear& linear_;
  std::vector<Group> groups_;
  std::vector<int> place_;  // [rows * k]: the row of working memory of each choice
  std::vector<Projection> projections_;
  std::vector<LinearArgs> calls_;
  Scratch input_, between_, results_;
  View gates_, outputs_;  // [rows * k, 2 * width], without a gate [.., width], and [.., hidden]
};

}  // namespace talon::cpu
