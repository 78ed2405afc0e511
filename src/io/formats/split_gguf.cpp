#include "io/formats/split_gguf.h"

#include <fmt/format.h>

#include <iterator>

#include "core/error.h"
#include "io/parse.h"
#include "io/quote.h"
#include "io/tensor_layout.h"

namespace talon {
namespace {

constexpr std::uint64_t kMostFiles = 99999;  // five digits
constexpr std::uint64_t kMostNumber = 10000000;

std::uint64_t number(const Checkpoint& file, const char* key) {
  const auto found = file.metadata.find(key);
  if (found == file.metadata.end()) return 0;
  const bool whole = found->is_number_unsigned() ||
                     (found->is_number_integer() && found->get<std::int64_t>() >= 0);
  if (!whole || found->get<std::uint64_t>() > kMostNumber) {
    // A text of a file need be no UTF-8.
    const std::string value = found->dump(-1, ' ', false, Json::error_handler_t::replace);
    fail("read GGUF {}: key \"{}\": expected a number of at most {}, found {}",
         quote(file.path.string()), key, kMostNumber, quote(value));
  }
  return found->get<std::uint64_t>();
}

std::string ending(std::uint64_t index, std::uint64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", index + 1, count);
}

void append(Checkpoint& whole, Checkpoint&& part) {
  std::ranges::move(part.tensors, std::back_inserter(whole.tensors));
  std::ranges::move(part.files, std::back_inserter(whole.files));
}

}  // namespace

void append_splits(Checkpoint& first) {
  const std::uint64_t count = number(first, "split.count");
  if (count <= 1) return;
  const std::string doing = fmt::format("read GGUF {}", quote(first.path.string()));
  const std::string name = first.path.filename().string();
  const std::uint64_t index = number(first, "split.no");
  if (count > kMostFiles || index != 0 || !name.ends_with(ending(0, count))) {
    fail("{}: expected the first of {} files, NAME{}, found number {}", doing, count,
         ending(0, std::min(count, kMostFiles)), index + 1);
  }
  const std::string stem = name.substr(0, name.size() - ending(0, count).size());
  for (std::uint64_t i = 1; i < count; ++i) {
    const auto path = first.path.parent_path() / (stem + ending(i, count));
    MappedFile mapped(path);
    Checkpoint part = parse_gguf(mapped.bytes(), path);
    mapped.check_whole();
    if (number(part, "split.no") != i || number(part, "split.count") != count) {
      fail("{}: expected {} to be file {} of {}, found {} of {}", doing, quote(path.string()),
           i + 1, count, number(part, "split.no") + 1, number(part, "split.count"));
    }
    part.files.push_back(std::move(mapped));
    append(first, std::move(part));
  }
  const std::uint64_t tensors = number(first, "split.tensors.count");
  if (tensors != 0 && tensors != first.tensors.size()) {
    fail("{}: expected {} tensors in all files, found {}", doing, tensors, first.tensors.size());
  }
  refuse_duplicate_names(first.tensors, doing);
}

}  // namespace talon
