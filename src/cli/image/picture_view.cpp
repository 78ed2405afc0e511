#include "cli/image/picture_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/terminal/console.h"
#include "cli/terminal/half_blocks.h"
#include "draw/film.h"

namespace talon {
namespace {

constexpr int kShownGap = 2;  // pixels
constexpr auto kLeastFrame = std::chrono::milliseconds(100);

}  // namespace

PictureView::PictureView(ShowPictures when, const ImagePlan& plan, const VqDecoder& decoder,
                         std::size_t pictures, int columns)
    : plan_(plan), decoder_(decoder), next_(Clock::now() + kLeastFrame) {
  const bool shows_colours = notes_show_colours();
  is_live_ = shows_colours && when != ShowPictures::never;
  shows_ = is_live_ || when == ShowPictures::always;
  const std::size_t shown = std::min(pictures, kMostShown);
  pictures_.assign(shown, PictureGrowth(plan));
  columns_ =
      columns > 0 ? columns : static_cast<int>(std::ceil(std::sqrt(static_cast<double>(shown))));
}

void PictureView::grew(std::size_t picture, std::span<const TokenId> tokens, double relaxed) {
  tokens_ += static_cast<int>(tokens.size());
  ++forwards_;
  if (!is_live_ || picture >= pictures_.size()) return;
  pictures_[picture].add(tokens, relaxed);
  const auto start = Clock::now();
  if (start < next_) return;
  show(tinted_previews());
  const auto end = Clock::now();
  next_ = end + std::max<Clock::duration>(kLeastFrame, 3 * (end - start));  // a quarter of the time
}

void PictureView::finish(std::span<const Picture> pictures) {
  if (shows_ && !pictures.empty()) show(pictures.first(std::min(pictures.size(), kMostShown)));
}

std::vector<Picture> PictureView::tinted_previews() const {
  std::vector<Picture> previews;
  for (const PictureGrowth& growth : pictures_) {
    const Picture preview = preview_of(decoder_, plan_, growth.codes());
    previews.push_back(tinted(plan_, preview, growth.origins()));
  }
  return previews;
}

void PictureView::show(std::span<const Picture> pictures) {
  TerminalSize room = terminal_size();
  room.lines = std::max(1, room.lines - 2);  // for the line below and the next prompt
  const std::string blocks = half_blocks(sheet_of(pictures, columns_, kShownGap), room);
  std::string text = shown_lines_ > 0 ? fmt::format("\x1b[{}A\r", shown_lines_) : "";
  text += blocks;
  text += fmt::format("{} tokens in {} forwards, plainly {}", tokens_, forwards_, tokens_);
  text += is_live_ ? "\x1b[K\n" : "\n";
  shown_lines_ = static_cast<int>(std::ranges::count(blocks, '\n')) + 1;
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace talon
