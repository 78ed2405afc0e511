#include "io/codec/zstd.h"

#include <zstd.h>

#include <memory>

#include "core/error.h"
#include "io/mapped_file.h"
#include "io/quote.h"

namespace talon {

std::string read_zstd(const std::filesystem::path& file, std::size_t most_bytes) {
  const MappedFile mapped(file);
  const std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> stream(ZSTD_createDStream(),
                                                                          ZSTD_freeDStream);
  expects(stream != nullptr, "read_zstd: the library has memory for a stream");
  std::string text;
  std::string piece(ZSTD_DStreamOutSize(), '\0');
  ZSTD_inBuffer input = {mapped.bytes().data(), mapped.bytes().size(), 0};
  std::size_t missing = 1;  // 0 once a frame is complete and flushed
  bool full_piece = false;  // more output may wait although the input is used up
  while (input.pos < input.size || (missing != 0 && full_piece)) {
    ZSTD_outBuffer output = {piece.data(), piece.size(), 0};
    missing = ZSTD_decompressStream(stream.get(), &output, &input);
    if (ZSTD_isError(missing)) {
      fail("decompress {}: {}", quote(file.string()), ZSTD_getErrorName(missing));
    }
    text.append(piece, 0, output.pos);
    full_piece = output.pos == output.size;
    if (text.size() > most_bytes) {
      fail("decompress {}: expected at most {} bytes, found more", quote(file.string()),
           most_bytes);
    }
  }
  if (missing != 0) fail("decompress {}: the file is cut off", quote(file.string()));
  return text;
}

}  // namespace talon
