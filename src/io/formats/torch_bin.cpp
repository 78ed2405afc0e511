#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "core/error.h"
#include "io/formats/pickle.h"
#include "io/formats/stored_zip.h"
#include "io/parse.h"
#include "io/quote.h"
#include "io/tensor_layout.h"

// torch.save since 1.6: a zip archive FOLDER/data.pkl, FOLDER/data/KEY (one for each storage),
// FOLDER/byteorder.
namespace talon {
namespace {

using Storages = std::unordered_map<std::string_view, std::span<const std::byte>>;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_contiguous(const PickledTensor& tensor) {
  std::int64_t expected = 1;
  for (std::size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

class TorchParser {
 public:
  TorchParser(std::span<const std::byte> bytes, const std::filesystem::path& name)
      : doing_(fmt::format("read torch file {}", quote(name.string()))), file_bytes_(bytes.size()) {
    checkpoint_.format = CheckpointFormat::torch_bin;
    checkpoint_.path = name;
    checkpoint_.metadata = Json::object();
    entries_ = read_stored_zip(bytes, doing_);
  }

  Checkpoint parse() {
    const std::string folder = find_folder();
    for (const ZipEntry& entry : entries_) {
      if (entry.name.starts_with(folder)) {
        files_.emplace(std::string_view(entry.name).substr(folder.size()), entry.bytes);
      }
    }
    check_byte_order();
    for (const PickledTensor& tensor : read_state_dict(files_.at("data.pkl"), doing_)) {
      add(tensor);
    }
    return std::move(checkpoint_);
  }

 private:
  std::string find_folder() const {
    constexpr std::string_view kPickle = "/data.pkl";
    const auto found = std::ranges::find_if(
        entries_, [&](const ZipEntry& entry) { return entry.name.ends_with(kPickle); });
    if (found == entries_.end()) {
      fail("{}: expected a zip archive with FOLDER/data.pkl, as torch.save writes, found none",
           doing_);
    }
    return found->name.substr(0, found->name.size() - kPickle.size() + 1);
  }

  void check_byte_order() const {
    const auto order = files_.find("byteorder");
    if (order != files_.end() && text_of(order->second) != "little") {
      fail("{}: expected little-endian tensors, found byteorder {}", doing_,
           quote(text_of(order->second)));
    }
  }

  void add(const PickledTensor& tensor) {
    const auto storage = storage_of(tensor);
    const auto bytes = stored_bytes(tensor.type, tensor.shape);
    const std::size_t element = block_shape(tensor.type).bytes;
    if (!bytes || *bytes > storage.size()) {
      refuse(tensor,
             fmt::format("at most {} elements, as its storage has", storage.size() / element),
             show_shape(tensor.shape));
    }
    StoredTensor stored{tensor.name, tensor.type, tensor.shape, {}};
    if (*bytes != 0) {
      check_extent(tensor, storage.size() / element);
      stored.bytes = is_contiguous(tensor) ? storage.subspan(tensor.offset * element, *bytes)
                                           : gather(tensor, storage, *bytes);
    }
    checkpoint_.tensors.push_back(std::move(stored));
  }

  std::span<const std::byte> storage_of(const PickledTensor& tensor) const {
    const auto found = files_.find(fmt::format("data/{}", tensor.storage_key));
    if (found == files_.end()) {
      refuse(tensor, fmt::format("the storage {} in the archive", quote(tensor.storage_key)),
             "none");
    }
    const auto expected = checked_product(tensor.storage_elements, block_shape(tensor.type).bytes);
    if (expected != found->second.size()) {
      refuse(
          tensor,
          fmt::format("a storage of {} {} elements", tensor.storage_elements, name_of(tensor.type)),
          fmt::format("{} bytes", found->second.size()));
    }
    return found->second;
  }

  // The last element of the window must be one of the storage. Every dimension is at least 1 and
  // their product small.
  void check_extent(const PickledTensor& tensor, std::uint64_t storage_elements) const {
    std::uint64_t last = tensor.offset;
    bool fits = true;
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      const auto reach = checked_product(static_cast<std::uint64_t>(tensor.shape[i] - 1),
                                         static_cast<std::uint64_t>(tensor.strides[i]));
      fits = fits && reach && !__builtin_add_overflow(last, *reach, &last);
    }
    if (!fits || last >= storage_elements) {
      refuse(tensor, fmt::format("a window of its storage of {} elements", storage_elements),
             fmt::format("offset {}, shape {}, strides {}", tensor.offset, show_shape(tensor.shape),
                         show_shape(tensor.strides)));
    }
  }

  // Copies the elements of a strided window in row-major order. All copies together are no larger
  // than the file, so that many windows of one storage cannot fill the memory.
  std::span<const std::byte> gather(const PickledTensor& tensor, std::span<const std::byte> storage,
                                    std::size_t bytes) {
    copied_bytes_ += bytes;
    if (copied_bytes_ > file_bytes_) {
      refuse(tensor, "strided tensors no larger together than the file", "more");
    }
    auto copy = std::make_unique<std::byte[]>(bytes);
    const std::size_t element = block_shape(tensor.type).bytes;
    std::vector<std::int64_t> index(tensor.shape.size(), 0);
    std::uint64_t from = tensor.offset;
    for (std::size_t to = 0; to < bytes; to += element) {
      std::memcpy(copy.get() + to, storage.data() + from * element, element);
      for (std::size_t i = index.size(); i-- > 0;) {
        const auto stride = static_cast<std::uint64_t>(tensor.strides[i]);
        from += stride;
        if (++index[i] < tensor.shape[i]) break;
        from -= stride * static_cast<std::uint64_t>(tensor.shape[i]);
        index[i] = 0;
      }
    }
    checkpoint_.owned.push_back(std::move(copy));
    return {checkpoint_.owned.back().get(), bytes};
  }

  [[noreturn]] void refuse(const PickledTensor& tensor, std::string_view expected,
                           std::string_view found) const {
    fail("{}: tensor {}: expected {}, found {}", doing_, quote(tensor.name), expected, found);
  }

  std::string doing_;
  std::size_t file_bytes_;
  std::vector<ZipEntry> entries_;
  Storages files_;  // of the archive, by name below its folder
  Checkpoint checkpoint_;
  std::size_t copied_bytes_ = 0;
};

}  // namespace

Checkpoint parse_torch_bin(std::span<const std::byte> bytes, const std::filesystem::path& name) {
  return TorchParser(bytes, name).parse();
}

Checkpoint read_torch_bin(const std::filesystem::path& file) {
  MappedFile mapped(file);
  Checkpoint checkpoint = parse_torch_bin(mapped.bytes(), file);
  mapped.check_whole();
  checkpoint.files.push_back(std::move(mapped));
  return checkpoint;
}

}  // namespace talon
