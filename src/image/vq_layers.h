#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "image/plane.h"
#include "io/checkpoint.h"
#include "io/pictures/vq_names.h"

namespace talon {

/// Tensors of a tokenizer by name, after their shapes and values have been looked at. Throws Error
/// naming file and tensor.
class VqTensors {
 public:
  explicit VqTensors(const Checkpoint& checkpoint)
      : checkpoint_(checkpoint), prefix_(vq_prefix(checkpoint)) {}

  bool has(const std::string& name) const { return checkpoint_.find(prefix_ + name) != nullptr; }
  std::vector<std::int64_t> shape(const std::string& name) const {
    return checkpoint_.require(prefix_ + name).shape;
  }
  std::vector<float> values(const std::string& name, const std::vector<std::int64_t>& shape) const;
  [[noreturn]] void refuse(const std::string& name, std::string_view expected,
                           std::string_view found) const;

 private:
  const Checkpoint& checkpoint_;
  std::string prefix_;
};

/// While it lives, what the calling thread asks of oneDNN is computed on so many threads at most,
/// its own included. Plans are made for a number: they are run with that which they were made with.
class OneDnnThreads {
 public:
  explicit OneDnnThreads(int most);
  ~OneDnnThreads();
  OneDnnThreads(const OneDnnThreads&) = delete;
  OneDnnThreads& operator=(const OneDnnThreads&) = delete;

 private:
  int before_;
};

/// A primitive of oneDNN, compiled for its sizes: vq_layers.cpp.
struct OneDnnState;
struct FreeOneDnn {
  void operator()(OneDnnState* state) const;
};
using OneDnn = std::unique_ptr<OneDnnState, FreeOneDnn>;

enum class ConvolutionKind {
  same,      // what comes out is as large as what goes in
  adding,    // the same, added to what is there
  halving,   // of half the sides, which are even: a 3x3 with zeros on the right and below alone
  doubling,  // every cell four times, then a 3x3
};

/// A convolution of 1x1 or 3x3 with a bias (oneDNN). Doubling is done in one step, with four
/// multiplications for nine: the cells that a pixel sees are two by two, so the weights of those
/// that are equal are added up when they are loaded.
class Convolution {
 public:
  /// Of planes of one size; the tensors tell how many channels come out.
  Convolution(const VqTensors& tensors, const std::string& name, const PlaneSize& in,
              ConvolutionKind kind = ConvolutionKind::same);

  const PlaneSize& out() const { return out_; }
  /// REQUIRES: not one that adds.
  Plane operator()(const Plane& in) const;
  /// REQUIRES: one that adds.
  void add(const Plane& in, Plane& sum) const;

 private:
  void run(const Plane& in, Plane& out) const;

  ConvolutionKind kind_;
  PlaneSize in_, out_;
  OneDnn state_;
};

/// Group norm of 32 groups, with silu behind it where asked. Sums are made in double, on one
/// thread; the rest is a convolution of each channel with itself, of 1x1 (oneDNN).
class GroupNorm {
 public:
  GroupNorm(const VqTensors& tensors, const std::string& name, const PlaneSize& size, bool silu);
  Plane operator()(const Plane& in) const;

 private:
  struct Map {
    std::vector<float> factor, shift;  // of each channel
  };
  Map map_of(const Plane& in) const;

  std::vector<float> weight_, bias_;
  OneDnn state_;
};

/// x + conv2(silu(norm2(conv1(silu(norm1(x)))))), x through a 1x1 convolution where the number of
/// channels changes.
class ResidualBlock {
 public:
  ResidualBlock(const VqTensors& tensors, const std::string& name, const PlaneSize& in);
  const PlaneSize& out() const { return second_.out(); }
  Plane operator()(Plane x) const;

 private:
  GroupNorm first_norm_;
  Convolution first_;
  GroupNorm second_norm_;
  Convolution second_;
  std::unique_ptr<Convolution> shortcut_;  // null: x itself
};

/// x + proj_out(attention of all cells to all cells, one head).
class CellAttention {
 public:
  CellAttention(const VqTensors& tensors, const std::string& name, const PlaneSize& size);
  /// Of all planes that are there while it is run.
  static std::size_t values_at_once(const PlaneSize& size);
  Plane operator()(Plane x) const;

 private:
  GroupNorm norm_;
  Convolution q_, k_, v_, out_;
  OneDnn softmax_;  // of the rows that are computed at once
};

}  // namespace talon
