#include "learn/text_ring.h"

#include <numeric>
#include <utility>

namespace talon {
namespace {

constexpr std::size_t kFiles = 8;

}  // namespace

TextRing::TextRing(std::filesystem::path folder, const Manifest& target, std::size_t room_bytes,
                   const LearnNote& note)
    : folder_(std::move(folder)), room_(room_bytes) {
  const Manifest manifest = add_run(folder_, target, Json{{"kind", "served"}});
  writer_ = std::make_unique<ShardWriter>(
      ShardWriterOptions{
          .folder = folder_, .kind = manifest.shard_kind(), .file_bytes = room_ / kFiles},
      note);
}

void TextRing::append(const Record& record) {
  writer_->append(record);
  drop_oldest();
}

void TextRing::drop_oldest() {
  const auto shards = list_shards(folder_);
  std::size_t bytes = std::accumulate(
      shards.begin(), shards.end(), std::size_t{0},
      [](std::size_t sum, const auto& shard) { return sum + std::filesystem::file_size(shard); });
  for (std::size_t i = 0; i + 1 < shards.size() && bytes > room_; ++i) {
    bytes -= std::filesystem::file_size(shards[i]);
    std::filesystem::remove(shards[i]);
  }
}

}  // namespace talon
