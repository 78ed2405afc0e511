#include <algorithm>
#include <optional>

#include "io/byte_reader.h"
#include "io/json_text.h"
#include "io/parse.h"
#include "io/quote.h"
#include "io/tensor_layout.h"

// safetensors, https://github.com/huggingface/safetensors: u64 header size, JSON header, data
// without gaps.
namespace talon {
namespace {

constexpr std::uint64_t kLargestHeader = 100'000'000;  // as in the reference implementation
constexpr std::size_t kMostDimensions = 16;

/// Whole numbers without a sign have the type of those with one: who reads their bits knows.
std::optional<StorageType> storage_type_of(std::string_view dtype) {
  if (dtype == "F32") return StorageType::f32;
  if (dtype == "F16") return StorageType::f16;
  if (dtype == "BF16") return StorageType::bf16;
  if (dtype == "F8_E4M3") return StorageType::f8_e4m3;
  if (dtype == "F64") return StorageType::f64;
  if (dtype == "I8") return StorageType::i8;
  if (dtype == "U8") return StorageType::u8;
  if (dtype == "I16" || dtype == "U16") return StorageType::i16;
  if (dtype == "I32" || dtype == "U32") return StorageType::i32;
  if (dtype == "I64" || dtype == "U64") return StorageType::i64;
  if (dtype == "BOOL") return StorageType::boolean;
  return std::nullopt;
}

// One entry of the header, whose place in the file is being checked.
class Entry {
 public:
  Entry(std::string_view doing, const std::string& name, const Json& entry)
      : doing_(doing), name_(name), entry_(entry) {
    if (!entry.is_object()) fail_entry("an object", entry.type_name());
  }

  StorageType type() const {
    const Json& dtype = field("dtype");
    if (!dtype.is_string()) fail_entry("a text as dtype", dtype.type_name());
    const auto type = storage_type_of(dtype.get_ref<const std::string&>());
    if (!type) {
      fail_entry("a dtype among F32 F16 BF16 F64 F8_E4M3 I8 U8 I16 U16 I32 U32 I64 U64 BOOL",
                 quote(dtype.get_ref<const std::string&>()));
    }
    return *type;
  }

  std::vector<std::int64_t> shape() const {
    const Json& shape = field("shape");
    if (!shape.is_array() || shape.size() > kMostDimensions) {
      fail_entry("a shape of at most 16 dimensions", shape.type_name());
    }
    std::vector<std::int64_t> sizes;
    for (const Json& size : shape) {
      const bool fits = size.is_number_unsigned() && size.get<std::uint64_t>() <= INT64_MAX;
      if (!fits) fail_entry("dimensions from 0 to 2^63 - 1", size.type_name());
      sizes.push_back(size.get<std::int64_t>());
    }
    return sizes;
  }

  struct Range {
    std::uint64_t begin, end;
  };
  Range offsets(std::uint64_t data_bytes) const {
    const Json& offsets = field("data_offsets");
    const bool pair = offsets.is_array() && offsets.size() == 2 &&
                      offsets[0].is_number_unsigned() && offsets[1].is_number_unsigned();
    if (!pair) fail_entry("two whole numbers as data_offsets", offsets.type_name());
    const Range range = {offsets[0].get<std::uint64_t>(), offsets[1].get<std::uint64_t>()};
    if (range.begin > range.end || range.end > data_bytes) {
      fail_entry(fmt::format("ascending data_offsets up to {}", data_bytes),
                 fmt::format("{} and {}", range.begin, range.end));
    }
    return range;
  }

  [[noreturn]] void fail_entry(std::string_view expected, std::string_view found) const {
    fail("{}: tensor {}: expected {}, found {}", doing_, quote(name_), expected, found);
  }

 private:
  const Json& field(const char* key) const {
    const auto found = entry_.find(key);
    if (found == entry_.end()) fail_entry(fmt::format("the key \"{}\"", key), "none");
    return *found;
  }

  std::string_view doing_;
  const std::string& name_;
  const Json& entry_;
};

StoredTensor read_tensor(std::string_view doing, const std::string& name, const Json& value,
                         std::span<const std::byte> data) {
  const Entry entry(doing, name, value);
  StoredTensor tensor{name, entry.type(), entry.shape(), {}};
  const auto range = entry.offsets(data.size());
  const auto size = stored_bytes(tensor.type, tensor.shape);
  if (size != range.end - range.begin) {
    entry.fail_entry(
        fmt::format("{} bytes for {} {}", size ? fmt::to_string(*size) : "more than 2^63",
                    name_of(tensor.type), show_shape(tensor.shape)),
        fmt::to_string(range.end - range.begin));
  }
  tensor.bytes = data.subspan(range.begin, range.end - range.begin);
  return tensor;
}

Json take_header(ByteReader& reader) {
  const auto size = reader.take<std::uint64_t>("the header size");
  if (size > kLargestHeader) {
    fail("{}: expected a header of at most {} bytes, found {}", reader.doing(), kLargestHeader,
         size);
  }
  Json header = parse_json(reader.take_text(size, "the header"), reader.doing());
  if (!header.is_object()) {
    fail("{}: expected an object as header, found {}", reader.doing(), header.type_name());
  }
  return header;
}

Json take_metadata(Json& header, std::string_view doing) {
  const auto found = header.find("__metadata__");
  if (found == header.end()) return Json::object();
  Json metadata = std::move(*found);
  header.erase(found);
  const bool texts = metadata.is_object() && std::ranges::all_of(metadata, [](const Json& value) {
                       return value.is_string();
                     });
  if (!texts) fail("{}: key \"__metadata__\": expected an object of texts", doing);
  return metadata;
}

// Every byte of the data belongs to exactly one tensor. Brings the tensors into file order.
void sort_and_refuse_gaps(std::vector<StoredTensor>& tensors, std::span<const std::byte> data,
                          std::string_view doing) {
  std::ranges::stable_sort(tensors, {}, [](const StoredTensor& tensor) {
    return std::pair(tensor.bytes.data(), tensor.bytes.size());
  });
  std::size_t end = 0;
  for (const StoredTensor& tensor : tensors) {
    const auto begin = static_cast<std::size_t>(tensor.bytes.data() - data.data());
    if (begin != end) {
      fail(
          "{}: tensor {}: expected its data to begin at offset {}, where the one before ends, "
          "found {}",
          doing, quote(tensor.name), end, begin);
    }
    end += tensor.bytes.size();
  }
  if (end != data.size()) {
    fail("{}: expected {} bytes of data, found {}", doing, end, data.size());
  }
}

}  // namespace

Checkpoint parse_safetensors(std::span<const std::byte> bytes, const std::filesystem::path& name) {
  ByteReader reader(bytes, fmt::format("read safetensors {}", quote(name.string())));
  Json header = take_header(reader);
  Checkpoint checkpoint{.format = CheckpointFormat::safetensors,
                        .path = name,
                        .metadata = take_metadata(header, reader.doing()),
                        .tensors = {},
                        .files = {},
                        .owned = {}};
  const auto data = bytes.subspan(reader.position());
  for (const auto& [tensor_name, entry] : header.items()) {
    checkpoint.tensors.push_back(read_tensor(reader.doing(), tensor_name, entry, data));
  }
  sort_and_refuse_gaps(checkpoint.tensors, data, reader.doing());
  return checkpoint;
}

Checkpoint read_safetensors(const std::filesystem::path& file) {
  MappedFile mapped(file);
  Checkpoint checkpoint = parse_safetensors(mapped.bytes(), file);
  mapped.check_whole();
  checkpoint.files.push_back(std::move(mapped));
  return checkpoint;
}

}  // namespace talon
