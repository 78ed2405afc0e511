#pragma once

#include <vector>

#include "backend/arguments.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/scratch.h"
#include "core/thread_pool.h"

namespace talon::cpu {

/// recurrent() of short convolutions. Workers share out sequences and blocks of channels, which
/// know nothing of each other.
class ShortConvolution {
 public:
  ShortConvolution(const Kernels& kernels, ThreadPool& pool);
  /// REQUIRES: what check_recurrent() asks for.
  void run(const RecurrentArgs& args, const AttentionLayout& layout);

 private:
  struct Call;
  void run_channels(const Call& call) const;
  void keep_inputs(const Call& call, int entry, int slot) const;

  const Kernels& kernels_;
  ThreadPool& pool_;
  std::vector<Scratch> inputs_;  // of each worker: [rows of the run][channels of the block]
};

}  // namespace talon::cpu
