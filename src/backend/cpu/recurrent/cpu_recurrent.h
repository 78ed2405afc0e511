#pragma once

#include <vector>

#include "backend/arguments.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/recurrent/state_walk.h"
#include "backend/cpu/scratch.h"
#include "core/thread_pool.h"

namespace talon::cpu {

/// recurrent() of the CPU backend. Workers share out (sequence, key head) pairs; the rows of one go
/// step after step through the states of its value heads, which stay in the caches meanwhile. In a
/// tree, a row that others follow leaves its state in a scratch that its last child takes over.
class Recurrent {
 public:
  Recurrent(const Kernels& kernels, ThreadPool& pool);
  void run(const RecurrentArgs& args);

 private:
  struct Worker {
    Scratch convolved;  // [rows of the run][q, k, values of the key head]
    Scratch states;     // [buffers of the walk][key_dim][value_dim]
    Scratch out;
  };
  struct Call;
  void run_key_head(const Call& call, int key_head, Worker& worker);
  void convolve(const Call& call, int key_head, float* values) const;
  void walk(const Call& call, int key_head, int head, const float* values, Worker& worker) const;
  void keep_tail(const Call& call, int key_head, int entry, int slot) const;

  const Kernels& kernels_;
  ThreadPool& pool_;
  std::vector<Worker> workers_;
  std::vector<StateWalk> walks_;
  std::vector<float> q_factors_, k_factors_, zeros_;
};

}  // namespace talon::cpu
