#pragma once

#include <vector>

#include "backend/arguments.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/recurrent/short_convolution.h"
#include "backend/cpu/recurrent/state_walk.h"
#include "backend/cpu/scratch.h"
#include "core/thread_pool.h"

namespace talon::cpu {

/// recurrent() of the CPU backend. Workers share out sequences and value heads of one key head; the
/// rows of a sequence go step after step through the states of these heads, which stay in the
/// caches meanwhile. In a tree, a row that others follow leaves its state in a scratch that its
/// last child takes over.
class Recurrent {
 public:
  Recurrent(const Kernels& kernels, ThreadPool& pool);
  void run(const RecurrentArgs& args);

 private:
  struct Worker {
    Scratch convolved;  // [rows of the run][q, k, values of the heads]
    Scratch states;     // [buffers of the walk][key_dim][value_dim]
    Scratch out;
  };
  struct Call;
  void prepare(const RecurrentArgs& args, const AttentionLayout& layout);
  void run_heads(const Call& call, Worker& worker);
  void convolve(const Call& call, float* values) const;
  void walk(const Call& call, int index, const float* values, Worker& worker) const;
  void give(const RecurrentArgs& args, int row, int head, const float* result,
            const float* v) const;
  void finish_row(const RecurrentArgs& args, int row) const;
  void keep_tails(const Call& call) const;
  void keep_tail(const Call& call, int entry, int slot) const;

  const Kernels& kernels_;
  ThreadPool& pool_;
  ShortConvolution convolution_;
  std::vector<Worker> workers_;
  std::vector<StateWalk> walks_;
  std::vector<float> q_factors_, k_factors_, zeros_;
};

}  // namespace talon::cpu
