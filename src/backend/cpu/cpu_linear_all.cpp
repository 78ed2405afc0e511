#include <algorithm>

#include "backend/cpu/cpu_linear_call.h"

namespace talon::cpu {

void Linear::place_parts(std::span<const LinearArgs> calls) {
  part_count_ = 0;
  piece_count_ = 0;
  if (parts_.size() < calls.size()) parts_.resize(calls.size());
  int widest = 0;
  for (const LinearArgs& args : calls) {
    check_linear(args);
    if (args.input.rows == 0) continue;
    Part& part = parts_[part_count_++];
    part.args = &args;
    cut(args.input.rows, false, part.blocks);
    cut(args.input.rows, true, part.float_blocks);
    part.input = place_input(args, forms_of(args), part.blocks, part.float_blocks, part.memory);
    part.first_piece = piece_count_;
    piece_count_ += Pieces{args, part.input, kernels_.wide_rows}.count();
    widest = std::max(widest, part.input.cols);
  }
  // Between a region's barriers nothing may throw.
  for (Worker& worker : workers_) worker.row.reserve<float>(static_cast<std::size_t>(widest));
}

/// Each worker prepares one run of the rows of all parts.
void Linear::prepare_parts(int index) {
  int rows = 0;
  for (std::size_t i = 0; i < part_count_; ++i) rows += parts_[i].input.rows;
  const int threads = pool_.active();
  int first = rows * index / threads, end = rows * (index + 1) / threads;
  for (std::size_t i = 0; i < part_count_ && end > 0; ++i) {
    const Part& part = parts_[i];
    for (int row = std::max(first, 0); row < std::min(end, part.input.rows); ++row) {
      prepare(*part.args, part.input, row, 0, part.input.cols,
              workers_[static_cast<std::size_t>(index)]);
    }
    first -= part.input.rows;
    end -= part.input.rows;
  }
}

/// As multiply() does, with the pieces of all parts in one line.
void Linear::multiply_parts(int worker) {
  const auto parts = std::span(parts_).first(part_count_);
  const auto multiply_run = [&](std::size_t first_piece, std::size_t pieces) {
    const int first = static_cast<int>(first_piece), end = first + static_cast<int>(pieces);
    auto part = std::ranges::upper_bound(parts, first, {}, &Part::first_piece) - 1;
    for (; part != parts.end() && part->first_piece < end; ++part) {
      const int begin = std::max(first - part->first_piece, 0);
      multiply_pieces({*part->args, part->input, kernels_.wide_rows}, begin,
                      end - part->first_piece - begin);
    }
  };
  pool_.share(worker, static_cast<std::size_t>(piece_count_), multiply_run);
}

void Linear::run_all(std::span<const LinearArgs> calls) {
  if (calls.size() == 1) return run(calls[0]);
  place_parts(calls);
  double work = 0;
  for (std::size_t i = 0; i < part_count_; ++i) work += work_of(*parts_[i].args);
  if (part_count_ == 0) return;
  pool_.run_timed(work, [&](int index) {
    prepare_parts(index);
    pool_.barrier();
    multiply_parts(index);
  });
}

}  // namespace talon::cpu
