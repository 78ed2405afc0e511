#pragma once

#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/packed_weight.h"
#include "backend/cpu/scratch.h"
#include "core/thread_pool.h"

namespace talon::cpu {

/// linear() of the CPU backend: one parallel region that transforms and quantises the rows, then
/// multiplies them by the tiles of all projections.
class Linear {
 public:
  Linear(const Kernels& kernels, ThreadPool& pool, Activations activations);
  ~Linear();
  void run(const LinearArgs& args);
  /// Several calls, none of which reads what another writes, in one parallel region.
  void run_all(std::span<const LinearArgs> calls);

 private:
  struct Forms;   // of the input that the projections want
  struct Input;   // where the prepared rows lie
  struct Run;     // consecutive tiles of one projection
  struct Pieces;  // of all projections, to be shared out
  struct Part;    // one of several calls
  struct Worker {
    Scratch row;    // one transformed row
    Scratch input;  // all rows, prepared by this worker for itself
  };

  bool is_rounded(const PackedWeight& weight) const;
  Forms forms_of(const LinearArgs& args) const;
  Input after(const Input& input, std::size_t groups) const;
  void prepare(const LinearArgs& args, const Input& input, int row, int first, int count,
               Worker& worker) const;
  void prepare_shared(const LinearArgs& args, const Input& input, int index);
  void multiply(const LinearArgs& args, const Input& input, int worker);
  void multiply_pieces(const Pieces& pieces, int first, int count) const;
  void multiply_tiles(const Run& run, const Input& input) const;

  struct RowBlock {
    int first;
    int rows;
  };
  /// The rows of a call cut as the kernels want them, and for each row the number of its block.
  struct Blocks {
    std::vector<RowBlock> list;
    std::vector<int> of_row;
  };
  void cut(int rows, bool float_weights, Blocks& blocks) const;
  Input place_input(const LinearArgs& args, const Forms& forms, const Blocks& blocks,
                    const Blocks& float_blocks, Scratch& memory) const;
  void place_parts(std::span<const LinearArgs> calls);
  void prepare_parts(int worker);
  void multiply_parts(int worker);

  const Kernels& kernels_;
  ThreadPool& pool_;
  bool two_planes_;   // of quantised inputs
  bool rounds_;       // inputs of bf16 weights to bf16
  float fine_above_;  // of QuantizedRow
  Blocks blocks_;
  Blocks float_blocks_;
  Scratch shared_;
  std::vector<Worker> workers_;
  std::vector<Part> parts_;
  std::size_t part_count_ = 0;
  int piece_count_ = 0;  // of all parts
};

}  // namespace talon::cpu
