#include "learn/folder_turn.h"

#include <system_error>

#include "core/error.h"
#include "io/quote.h"

namespace talon {
namespace {

const std::filesystem::path& made(const std::filesystem::path& folder) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) {
    fail("learn: cannot make the folder {}: {}", quote(folder.string()), problem.message());
  }
  return folder;
}

}  // namespace

FolderTurn::FolderTurn(const std::filesystem::path& folder)
    : lock_(made(folder) / "lock", "learn: the folder " + quote(folder.string()),
            "another server learns there: give each its own") {}

}  // namespace talon
