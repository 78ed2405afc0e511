#include "train/data/dataset.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/philox.h"
#include "io/mapped_file.h"
#include "io/quote.h"
#include "train/data/manifest.h"
#include "train/data/shard.h"

namespace talon {
namespace {

struct Shard {
  MappedFile file;
  ShardKind kind;
};
struct Entry {
  std::uint32_t shard = 0;
  RecordPlace place;
};

/// Whether what was learnt from one folder holds for the other. Settings of the target, such as the
/// bits of its activations, and how vectors are stored may differ: they change them by rounding
/// only.
bool same_target(const DatasetInfo& a, const DatasetInfo& b) {
  return a.model_sha256 == b.model_sha256 && a.hidden == b.hidden && a.vocabulary == b.vocabulary &&
         a.taps == b.taps;
}

std::string source_of(std::span<const std::byte> payload, const RecordPlace& place,
                      const PayloadLayout& layout) {
  return {reinterpret_cast<const char*>(payload.data() + layout.source), place.header.source_bytes};
}

}  // namespace

struct Dataset::State {
  void add_folder(const std::filesystem::path& folder);
  void add_shard(const std::filesystem::path& path, const ShardKind& kind);

  std::optional<DatasetInfo> info;
  std::vector<Shard> shards;
  std::vector<Entry> entries;
  std::uint64_t tokens = 0, response_tokens = 0;
};

Dataset::Dataset(const std::vector<std::filesystem::path>& folders)
    : state_(std::make_unique<State>()) {
  for (const auto& folder : folders) state_->add_folder(folder);
}
Dataset::~Dataset() = default;
Dataset::Dataset(Dataset&&) noexcept = default;
Dataset& Dataset::operator=(Dataset&&) noexcept = default;

void Dataset::State::add_folder(const std::filesystem::path& folder) {
  const auto manifest = read_manifest(folder);
  if (!manifest) {
    fail("open training data: expected manifest.json in {}, found none", quote(folder.string()));
  }
  if (info && !same_target(*info, manifest->info)) {
    fail(
        "open training data in {}: expected the target and taps of the folder before it ({}), "
        "found others ({})",
        quote(folder.string()), info->model, manifest->info.model);
  }
  if (!info) info = manifest->info;
  for (const auto& shard : list_shards(folder)) add_shard(shard, manifest->shard_kind());
}

void Dataset::State::add_shard(const std::filesystem::path& path, const ShardKind& kind) {
  if (std::filesystem::file_size(path) == 0) return;  // its writer is about to begin
  MappedFile file(path);
  const ShardContents contents = scan_shard(file, kind);
  for (const RecordPlace& place : contents.records) {
    entries.push_back({static_cast<std::uint32_t>(shards.size()), place});
    tokens += place.header.tokens;
    response_tokens += place.header.tokens - place.header.response_begin;
  }
  shards.push_back({std::move(file), kind});
}

const DatasetInfo& Dataset::info() const { return *state_->info; }
std::size_t Dataset::size() const { return state_->entries.size(); }
std::uint64_t Dataset::tokens() const { return state_->tokens; }
std::uint64_t Dataset::response_tokens() const { return state_->response_tokens; }

ConversationSize Dataset::size_of(std::size_t index) const {
  expects(index < size(), "an index of the data set");
  const RecordHeader& header = state_->entries[index].place.header;
  return {static_cast<int>(header.tokens), static_cast<int>(header.response_begin),
          header.temperature};
}

Conversation Dataset::read(std::size_t index) const {
  expects(index < size(), "an index of the data set");
  const Entry& entry = state_->entries[index];
  const RecordHeader& header = entry.place.header;
  const auto& [file, kind] = state_->shards[entry.shard];
  const auto payload = read_payload(file, entry.place, kind);
  const PayloadLayout layout = payload_layout(header, kind);

  Conversation conversation;
  conversation.tokens = {reinterpret_cast<const TokenId*>(payload.data()), header.tokens};
  for (const TokenId token : conversation.tokens) {
    if (token < 0 || token >= info().vocabulary) {
      fail("read {}: the record at byte {}: expected tokens from 0 to {}, found {}",
           quote(file.path().string()), entry.place.offset, info().vocabulary - 1, token);
    }
  }
  conversation.response_begin = static_cast<int>(header.response_begin);
  conversation.temperature = header.temperature;
  conversation.source = source_of(payload, entry.place, layout);
  conversation.format = kind.rows();
  conversation.features =
      payload.subspan(layout.features, std::size_t{header.tokens - 1} * kind.rows().row_bytes());
  return conversation;
}

std::vector<std::size_t> Dataset::shuffled(std::uint64_t seed) const {
  std::vector<std::size_t> order(size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const PositionRandom random(seed, 0);
  for (std::size_t i = order.size(); i > 1; --i) {
    const double uniform = random.uniform(i, RandomUse::sample);
    std::swap(order[i - 1], order[static_cast<std::size_t>(uniform * static_cast<double>(i))]);
  }
  return order;
}

}  // namespace talon
