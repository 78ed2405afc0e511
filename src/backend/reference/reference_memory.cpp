#include "backend/reference/reference_memory.h"

#include <cstring>
#include <new>

#include "backend/reference/reference_math.h"
#include "core/error.h"
#include "core/half.h"

namespace talon::reference {

namespace {

template <typename Value>
struct Memory : DeviceMemory {
  std::vector<Value> values;
};

}  // namespace

Buffer allocate(int rows, int cols) {
  expects(rows >= 0 && cols >= 0, "a buffer's shape is not negative");
  auto memory = std::make_unique<Memory<float>>();
  try {
    memory->values.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
  } catch (const std::bad_alloc&) {
    fail("allocate a buffer of [{}, {}] float32: out of memory", rows, cols);
  }
  float* data = memory->values.data();
  return {{data, rows, cols, cols}, std::move(memory)};
}

IndexBuffer allocate_indices(int count) {
  expects(count >= 0, "a list's size is not negative");
  auto memory = std::make_unique<Memory<std::int32_t>>();
  memory->values.resize(static_cast<std::size_t>(count));
  std::int32_t* data = memory->values.data();
  return {{data, count}, std::move(memory)};
}

Cache::Cache(const KvShape& of) {
  shape = of;
  bytes = kv_page_bytes(of) * static_cast<std::size_t>(of.pages);
  std::size_t end = 0;
  for (int layer = 0; layer < of.layers; ++layer) {
    for (const Part part : {Part::keys, Part::values}) {
      begin_.push_back(end);
      end += row_bytes(layer, part) * static_cast<std::size_t>(of.pages) * kPageRows;
    }
  }
  // calloc, so that pages nobody writes cost no memory.
  memory_.reset(static_cast<std::byte*>(std::calloc(bytes, 1)));
  if (!memory_) fail("allocate a cache of {} pages: out of memory ({} bytes)", of.pages, bytes);
}

std::size_t Cache::row_bytes(int layer, Part part) const {
  return static_cast<std::size_t>(cols(layer, part)) * bytes_of(shape.type);
}

std::size_t Cache::offset(int layer, Part part, Slot slot) const {
  const int slots = shape.pages * kPageRows;
  expects(layer >= 0 && layer < shape.layers && slot >= 0 && slot < slots, "a slot of the cache");
  const std::size_t matrix = static_cast<std::size_t>(layer) * 2 + static_cast<std::size_t>(part);
  return begin_[matrix] + static_cast<std::size_t>(slot) * row_bytes(layer, part);
}

void Cache::write(int layer, Part part, Slot slot, std::span<const float> row) {
  std::byte* to = memory_.get() + offset(layer, part, slot);
  if (shape.type == KvType::f32) {
    std::memcpy(to, row.data(), row.size_bytes());
    return;
  }
  for (const float value : row) {
    const std::uint16_t half =
        shape.type == KvType::f16 ? float_to_half(value) : float_to_bf16(value);
    std::memcpy(to, &half, sizeof(half));
    to += sizeof(half);
  }
}

void Cache::read(int layer, Part part, Slot slot, std::span<double> row) const {
  const std::byte* from = memory_.get() + offset(layer, part, slot);
  for (double& value : row) {
    if (shape.type == KvType::f32) {
      float single;
      std::memcpy(&single, from, sizeof(single));
      value = single;
      from += sizeof(single);
    } else {
      std::uint16_t half;
      std::memcpy(&half, from, sizeof(half));
      value = shape.type == KvType::f16 ? half_to_float(half) : bf16_to_float(half);
      from += sizeof(half);
    }
  }
}

void Cache::copy_rows(std::span<const Slot> from, std::span<const Slot> to) {
  std::vector<std::byte> rows;
  for (int layer = 0; layer < shape.layers; ++layer) {
    for (const Part part : {Part::keys, Part::values}) {
      const std::size_t size = row_bytes(layer, part);
      rows.resize(from.size() * size);
      for (std::size_t i = 0; i < from.size(); ++i) {
        std::memcpy(rows.data() + i * size, memory_.get() + offset(layer, part, from[i]), size);
      }
      for (std::size_t i = 0; i < to.size(); ++i) {
        std::memcpy(memory_.get() + offset(layer, part, to[i]), rows.data() + i * size, size);
      }
    }
  }
}

std::vector<double> multiply(const DenseWeight& weight, std::span<const double> x,
                             const float* bias) {
  expects(static_cast<std::size_t>(weight.cols) == x.size(), "the input fits the weight");
  std::vector<double> out;
  for (int column = 0; column < weight.rows; ++column) {
    const std::vector<double> w(weight.row(column), weight.row(column) + weight.cols);
    out.push_back(dot(x.data(), w.data(), w.size()));
    if (bias) out.back() += bias[column];
  }
  return out;
}

}  // namespace talon::reference
