#include "io/formats/write_gguf.h"

#include <limits>
#include <type_traits>

#include "core/error.h"
#include "io/formats/ggml_types.h"
#include "io/formats/gguf_format.h"
#include "io/quote.h"
#include "io/tensor_layout.h"

// GGUF, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
namespace talon {
namespace {

constexpr std::uint32_t kVersion = 3;

std::size_t padded(std::size_t bytes) {
  return (bytes + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment;
}

/// The file up to its tensors' data.
class GgufHeader {
 public:
  explicit GgufHeader(const std::filesystem::path& file) : file_(file) {}

  template <typename Number>
  void put(Number value) {
    static_assert(std::is_arithmetic_v<Number>);
    text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void put_text(const std::string& text) {
    put<std::uint64_t>(text.size());
    text_ += text;
  }
  void put_value(const std::string& key, const Json& value) {
    put_text(key);
    const GgufType type = type_of(key, value);
    put(static_cast<std::uint32_t>(type));
    if (type != GgufType::array) return put_number(type, value);
    const GgufType element = element_of(key, value);
    put(static_cast<std::uint32_t>(element));
    put<std::uint64_t>(value.size());
    for (const Json& one : value) put_number(element, one);
  }
  std::string padded_text() {
    text_.resize(padded(text_.size()), '\0');
    return std::move(text_);
  }

 private:
  GgufType type_of(const std::string& key, const Json& value) const {
    switch (value.type()) {
      case Json::value_t::string:
        return GgufType::string;
      case Json::value_t::boolean:
        return GgufType::boolean;
      case Json::value_t::number_float:
        return GgufType::f32;
      case Json::value_t::number_unsigned: {
        const bool small = value.get<std::uint64_t>() <= std::numeric_limits<std::uint32_t>::max();
        return small ? GgufType::u32 : GgufType::u64;
      }
      case Json::value_t::number_integer: {
        const auto number = value.get<std::int64_t>();
        return static_cast<std::int32_t>(number) == number ? GgufType::i32 : GgufType::i64;
      }
      case Json::value_t::array:
        return GgufType::array;
      default:
        break;
    }
    refuse(key, value.type_name());
  }

  /// The type of an array's elements: that of the first, of numbers the one that holds all.
  GgufType element_of(const std::string& key, const Json& array) const {
    if (array.empty()) return GgufType::i32;
    const GgufType first = type_of(key, array[0]);
    GgufType widest = first;
    for (const Json& one : array) {
      if (one.type() != array[0].type()) refuse(key, "an array of several types");
      const GgufType type = type_of(key, one);
      if (type != first) widest = type == GgufType::u64 || type == GgufType::i64 ? type : widest;
    }
    if (first == GgufType::array) refuse(key, "arrays within an array");
    return widest;
  }

  void put_number(GgufType type, const Json& value) {
    switch (type) {
      case GgufType::string:
        return put_text(value.get_ref<const std::string&>());
      case GgufType::boolean:
        return put<std::uint8_t>(value.get<bool>() ? 1 : 0);
      case GgufType::f32:
        return put(value.get<float>());
      case GgufType::u32:
        return put(value.get<std::uint32_t>());
      case GgufType::u64:
        return put(value.get<std::uint64_t>());
      case GgufType::i32:
        return put(value.get<std::int32_t>());
      case GgufType::i64:
        return put(value.get<std::int64_t>());
      default:
        throw Bug("expected a type that type_of() gives, and no array");
    }
  }

  [[noreturn]] void refuse(const std::string& key, std::string_view found) const {
    fail(
        "write GGUF {}: key {}: expected a text, a number, a boolean or an array of one of these, "
        "found {}",
        quote(file_.string()), quote(key), found);
  }

  std::filesystem::path file_;
  std::string text_;
};

}  // namespace

GgufWriter::GgufWriter(const std::filesystem::path& file, const GgufMetadata& metadata,
                       std::span<const TensorOutline> tensors)
    : file_(file) {
  GgufHeader header(file);
  header.put(kGgufMagic);
  header.put(kVersion);
  header.put<std::uint64_t>(tensors.size());
  header.put<std::uint64_t>(metadata.size());
  for (const auto& [key, value] : metadata) header.put_value(key, value);
  std::uint64_t offset = 0;
  for (const TensorOutline& tensor : tensors) {
    const auto type = ggml_type_of(tensor.type);
    const auto bytes = stored_bytes(tensor.type, tensor.shape);
    expects(type && bytes, "a type and a shape that GGUF has");
    header.put_text(tensor.name);
    header.put(static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size)
      header.put(static_cast<std::uint64_t>(*size));
    header.put(*type);
    header.put(offset);
    offset += padded(*bytes);
    sizes_.push_back(*bytes);
  }
  const std::string text = header.padded_text();
  put(std::as_bytes(std::span(text)));
}

void GgufWriter::write(std::span<const std::byte> bytes) {
  expects(tensor_ < sizes_.size() && bytes.size() <= sizes_[tensor_] - written_,
          "bytes of the tensors, in order");
  put(bytes);
  written_ += bytes.size();
  if (written_ < sizes_[tensor_]) return;
  constexpr std::byte kZeros[kGgufAlignment] = {};
  put(std::span(kZeros).first(padded(written_) - written_));
  written_ = 0;
  ++tensor_;
}

/// Small pieces are put together, large ones go by.
void GgufWriter::put(std::span<const std::byte> bytes) {
  constexpr std::size_t kAtOnce = std::size_t{1} << 20;
  if (pending_.size() + bytes.size() > kAtOnce) flush();
  if (bytes.size() >= kAtOnce) return file_.write(bytes);
  pending_.insert(pending_.end(), bytes.begin(), bytes.end());
}

void GgufWriter::flush() {
  file_.write(pending_);
  pending_.clear();
}

void GgufWriter::commit() {
  expects(tensor_ == sizes_.size(), "all tensors were written");
  flush();
  file_.commit();
}

void write_gguf(const std::filesystem::path& file, const GgufMetadata& metadata,
                std::span<const TensorToWrite> tensors) {
  std::vector<TensorOutline> outlines;
  for (const TensorToWrite& tensor : tensors) {
    expects(stored_bytes(tensor.type, tensor.shape) == tensor.bytes.size(), "bytes of its shape");
    outlines.push_back({tensor.name, tensor.type, tensor.shape});
  }
  GgufWriter writer(file, metadata, outlines);
  for (const TensorToWrite& tensor : tensors) writer.write(tensor.bytes);
  writer.commit();
}

}  // namespace talon
