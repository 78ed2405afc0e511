#pragma once

#include <string>

#include "image/picture.h"

namespace talon {

/// Whether standard error is a terminal that shows 24-bit colours (COLORTERM, TERM), and nobody
/// asks for none (NO_COLOR).
bool notes_show_colours();

struct TerminalSize {
  int columns = 80, lines = 24;
};
/// Of the terminal of standard error; what is usual where there is none.
TerminalSize terminal_size();

/// A picture in half blocks: each character shows two pixels, one above the other. One that is
/// larger than `most` is made smaller, a pixel the mean of those that it stands for. Ends every
/// line with the usual colours and a line feed.
std::string half_blocks(const Picture& picture, const TerminalSize& most);

}  // namespace talon
