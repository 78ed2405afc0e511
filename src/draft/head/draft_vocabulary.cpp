#include "draft/head/draft_vocabulary.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "io/quote.h"
#include "io/tensor_layout.h"

namespace talon {
namespace {

template <typename Stored>
std::vector<std::int64_t> read_as(const StoredTensor& tensor) {
  std::vector<std::int64_t> values(tensor.bytes.size() / sizeof(Stored));
  for (std::size_t i = 0; i < values.size(); ++i) {
    Stored value;
    std::memcpy(&value, tensor.bytes.data() + i * sizeof(Stored), sizeof(Stored));
    values[i] = value;
  }
  return values;
}

/// The target ids that `t2d` marks, ascending.
std::vector<std::int64_t> read_marked(const StoredTensor& marks, const std::string& doing) {
  std::vector<std::int64_t> marked;
  const auto values = read_integers(marks, doing);
  for (std::size_t token = 0; token < values.size(); ++token) {
    if (values[token] != 0) marked.push_back(static_cast<std::int64_t>(token));
  }
  return marked;
}

std::vector<std::int64_t> read_differences(const HeadTensors& tensors, const StoredTensor& d2t,
                                           int target_vocabulary) {
  const auto stored = read_integers(d2t, tensors.doing());
  std::vector<std::int64_t> ids = stored;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    // The check of the range comes later; here the sum must only not overflow.
    if (ids[i] < -target_vocabulary || ids[i] > target_vocabulary) {
      fail("{}: {}: entry {}: expected a difference within the {} tokens of the target, found {}",
           tensors.doing(), quote(d2t.name), i, target_vocabulary, ids[i]);
    }
    ids[i] += static_cast<std::int64_t>(i);
  }
  const StoredTensor* t2d = tensors.find("t2d", {target_vocabulary});
  if (!t2d) return ids;
  const auto marked = read_marked(*t2d, tensors.doing());
  if (marked == ids) return ids;
  if (marked == stored) return stored;
  fail("{}: {}: expected to mark the {} tokens that {} names, found {} others", tensors.doing(),
       quote(t2d->name), ids.size(), quote(d2t.name), marked.size());
}

/// Ids as they are, but a list that repeats some and never falls holds differences, as GGUF files
/// of some converters.
std::vector<std::int64_t> read_ids(const StoredTensor& map, const std::string& doing) {
  std::vector<std::int64_t> ids = read_integers(map, doing);
  const bool repeats = std::adjacent_find(ids.begin(), ids.end()) != ids.end();
  if (repeats && std::is_sorted(ids.begin(), ids.end())) {
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = std::min<std::int64_t>(ids[i], INT32_MAX) + static_cast<std::int64_t>(i);
  }
  return ids;
}

}  // namespace

std::vector<std::int64_t> read_integers(const StoredTensor& tensor, const std::string& doing) {
  switch (tensor.type) {
    case StorageType::i64:
      return read_as<std::int64_t>(tensor);
    case StorageType::i32:
      return read_as<std::int32_t>(tensor);
    case StorageType::i16:
      return read_as<std::int16_t>(tensor);
    case StorageType::i8:
      return read_as<std::int8_t>(tensor);
    case StorageType::u8:
    case StorageType::boolean:
      return read_as<std::uint8_t>(tensor);
    default:
      break;
  }
  fail("{}: {}: expected integers, found {}", doing, quote(tensor.name), name_of(tensor.type));
}

std::vector<TokenId> read_draft_vocabulary(const HeadTensors& tensors, int target_vocabulary) {
  const StoredTensor* d2t = tensors.find("d2t");
  const StoredTensor* map = d2t ? d2t : tensors.find("token_map");
  if (!map) return {};
  const auto ids =
      d2t ? read_differences(tensors, *d2t, target_vocabulary) : read_ids(*map, tensors.doing());
  std::vector<bool> seen(static_cast<std::size_t>(target_vocabulary));
  std::vector<TokenId> tokens;
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= target_vocabulary || seen[static_cast<std::size_t>(id)]) {
      fail("{}: {}: entry {}: expected a token id below {} that comes once, found {}",
           tensors.doing(), quote(map->name), tokens.size(), target_vocabulary, id);
    }
    seen[static_cast<std::size_t>(id)] = true;
    tokens.push_back(static_cast<TokenId>(id));
  }
  return tokens;
}

}  // namespace talon
