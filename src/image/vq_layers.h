#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/checkpoint.h"
#include "io/pictures/vq_names.h"

namespace talon {

/// Values of all cells of a grid, channels last: [rows, columns, channels].
struct Plane {
  int rows = 0, columns = 0, channels = 0;
  std::vector<float> values;

  int cells() const { return rows * columns; }
};

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

/// A convolution of 1x1 or 3x3 with a bias (oneDNN).
class Convolution {
 public:
  /// Of planes of one size; the tensors tell how many channels come out. step: 1, what comes out is
  /// as large; 2, of half the sides, which are even: a 3x3 with zeros on the right and below alone.
  Convolution(const VqTensors& tensors, const std::string& name, int channels, int rows,
              int columns, int step = 1);
  ~Convolution();
  Convolution(Convolution&&) noexcept;
  Convolution& operator=(Convolution&&) noexcept;

  int out_channels() const { return out_channels_; }
  Plane operator()(const Plane& in) const;

 private:
  struct State;
  int out_channels_ = 0, step_ = 1;
  std::unique_ptr<State> state_;
};

/// Group norm of 32 groups, with silu behind it where asked.
class GroupNorm {
 public:
  GroupNorm(const VqTensors& tensors, const std::string& name, int channels, bool silu);
  Plane operator()(const Plane& in) const;

 private:
  std::vector<float> weight_, bias_;
  bool silu_;
};

/// x + conv2(silu(norm2(conv1(silu(norm1(x)))))), x through a 1x1 convolution where the number of
/// channels changes.
class ResidualBlock {
 public:
  ResidualBlock(const VqTensors& tensors, const std::string& name, int channels, int rows,
                int columns);
  int out_channels() const { return second_.out_channels(); }
  Plane operator()(const Plane& in) const;

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
  CellAttention(const VqTensors& tensors, const std::string& name, int channels, int rows,
                int columns);
  Plane operator()(const Plane& in) const;

 private:
  GroupNorm norm_;
  Convolution q_, k_, v_, out_;
};

/// Every cell four times.
Plane twice_as_large(const Plane& in);

}  // namespace talon
