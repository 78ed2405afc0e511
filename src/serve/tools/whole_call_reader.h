#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/tools/mark_search.h"

namespace talon {

/// Reads calls that stand between two marks and are told once they are whole. What no call can be
/// read from is content, its marks too.
class WholeCallReader final : public AnswerReader {
 public:
  using Calls = std::vector<ReadAnswer::Call>;
  using ReadCalls = std::function<Calls(std::string_view text)>;

  /// around: further marks, which are left out where no call is open.
  WholeCallReader(std::string_view begin, std::string_view end, ReadCalls read_calls,
                  std::vector<std::string_view> around = {});

  void read(std::string_view text, Parts& parts) override;
  void finish(Parts& parts) override;

 private:
  bool advance(Parts& parts);
  void end_call(std::string_view text, std::string_view end, Parts& parts);

  std::vector<std::string_view> outside_;  // marks that are looked for there, the begin first
  std::vector<std::string_view> inside_;
  ReadCalls read_calls_;
  std::string pending_;
  bool in_call_ = false;
  Content content_;
};

}  // namespace talon
