#include "learn/text_ring.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "io/mapped_file.h"
#include "io/quote.h"

namespace talon {
namespace {

constexpr std::size_t kFiles = 8;
constexpr std::string_view kDamaged = ".damaged";

/// Its records; none if it is empty, as a file that is about to be written. Throws Error if it is
/// damaged; the texts themselves are looked at if `whole` says so.
long texts_in(const std::filesystem::path& shard, const ShardKind& kind, bool whole) {
  std::error_code error;
  if (std::filesystem::file_size(shard, error) == 0 && !error) return 0;
  const MappedFile file(shard);
  const ShardContents contents = scan_shard(file, kind);
  if (whole) {
    for (const RecordPlace& place : contents.records) read_payload(file, place, kind);
  }
  return static_cast<long>(contents.records.size());
}

/// What `shards` of it hold, and the damaged ones.
struct Looked {
  std::map<std::filesystem::path, long> texts;
  std::vector<std::filesystem::path> damaged;
};
Looked look_at(const std::filesystem::path& folder, const ShardKind& kind, bool whole) {
  Looked looked;
  for (const auto& shard : list_shards(folder)) {
    try {
      looked.texts[shard] = texts_in(shard, kind, whole);
    } catch (const std::exception&) {
      looked.damaged.push_back(shard);
    }
  }
  return looked;
}

/// In the order in which they are to go: what was put aside, then shards from the oldest on.
std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto kind = entry.path().extension();
    if (kind == kDamaged || kind == kShardSuffix) files.push_back(entry.path());
  }
  std::ranges::sort(files, {}, [](const std::filesystem::path& file) {
    return std::pair(file.extension() == kShardSuffix, file);
  });
  return files;
}

void put_aside(const std::filesystem::path& shard, const LearnNote& note) {
  auto aside = shard;
  aside += kDamaged;
  std::error_code error;
  std::filesystem::rename(shard, aside, error);
  const std::string name = quote(shard.string());
  if (error) fail("learn: {} is damaged and cannot be renamed: {}", name, error.message());
  note(fmt::format("learn: {} is damaged: it is now {}, and its texts are left out", name,
                   quote(aside.filename().string())));
}

}  // namespace

std::vector<std::filesystem::path> damaged_shards(const std::filesystem::path& folder) {
  const auto manifest = read_manifest(folder);
  if (!manifest) fail("learn: expected manifest.json in {}, found none", quote(folder.string()));
  return look_at(folder, manifest->shard_kind(), true).damaged;
}

TextRing::TextRing(std::filesystem::path folder, const Manifest& target, std::size_t room_bytes,
                   LearnNote note)
    : folder_(std::move(folder)), room_(room_bytes), note_(std::move(note)) {
  kind_ = add_run(folder_, target, Json{{"kind", "served"}}).shard_kind();
  Looked looked = look_at(folder_, kind_, false);
  for (const auto& shard : looked.damaged) put_aside(shard, note_);
  texts_ = std::move(looked.texts);
  open();
}

void TextRing::open() {
  writer_.reset();  // it has the lock of its file
  writer_ = std::make_unique<ShardWriter>(
      ShardWriterOptions{.folder = folder_, .kind = kind_, .file_bytes = room_ / kFiles}, note_);
}

void TextRing::append(const Record& record) {
  if (writer_ && !writer_->is_there()) writer_.reset();  // somebody deleted its file
  if (!writer_) {
    forget_deleted(files_in(folder_));  // the new file may have the name of one of them
    open();
  }
  writer_->append(record);
  drop_oldest();
}

/// Keeps the counts of `files`.
void TextRing::forget_deleted(const std::vector<std::filesystem::path>& files) {
  std::erase_if(texts_, [&](const auto& known) {
    return std::ranges::find(files, known.first) == files.end();
  });
}

void TextRing::drop_damaged() {
  Looked looked = look_at(folder_, kind_, true);
  if (looked.damaged.empty()) return;
  writer_.reset();  // it may write one of them
  for (const auto& shard : looked.damaged) put_aside(shard, note_);
  texts_ = std::move(looked.texts);
  open();
}

long TextRing::texts() const {
  long texts = 0;
  for (const auto& [shard, count] : texts_) texts += count;
  return texts;
}

/// After a text has been added.
void TextRing::drop_oldest() {
  const auto files = files_in(folder_);
  forget_deleted(files);
  if (files.empty() || files.back().extension() != kShardSuffix) return;
  ++texts_[files.back()];
  std::size_t bytes = 0;
  for (const auto& file : files) bytes += std::filesystem::file_size(file);
  for (std::size_t i = 0; i + 1 < files.size() && bytes > room_; ++i) {
    bytes -= std::filesystem::file_size(files[i]);
    std::filesystem::remove(files[i]);
    texts_.erase(files[i]);
  }
}

}  // namespace talon
