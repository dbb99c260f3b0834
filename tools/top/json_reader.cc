// SPDX-License-Identifier: MIT OR Apache-2.0
#include "json_reader.h"

#include <charconv>

namespace top {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void put_utf8(std::string& out, unsigned code) {
    if (code < 0x80) {
        out += char(code);
        return;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    constexpr unsigned first[] = {0, 0xc0, 0xe0, 0xf0};
    out += char(first[more] | code >> (6 * more));
    while (more--) out += char(0x80 | (code >> (6 * more) & 0x3f));
}

template <class Number>
bool whole_number(std::string_view text, Number& out) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc() && end == text.data() + text.size();
}

} // namespace

void JsonReader::skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
        at_++;
}

bool JsonReader::take(std::string_view word) {
    skip_blanks();
    if (failed_ || text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
}

char JsonReader::kind() {
    skip_blanks();
    if (failed_ || at_ == text_.size()) return 0;
    char c = text_[at_];
    if (c == '-' || is_digit(c)) return '0';
    for (char known : {'{', '[', '"', 't', 'f', 'n'}) {
        if (c == known) return c;
    }
    return 0;
}

bool JsonReader::begin(char bracket) {
    if (!take({&bracket, 1}) || depth_ == depth_most) return fail();
    depth_++;
    first_ = true;
    return true;
}

// Whether a member or an element follows; if not, takes the closing bracket.
bool JsonReader::next(char bracket) {
    if (failed_) return false;
    bool was_first = first_;
    first_ = false;
    if (take({&bracket, 1})) {
        depth_--;
        return false;
    }
    return was_first || take(",") ? true : fail();
}

bool JsonReader::next_element() { return next(']'); }

bool JsonReader::next_member(std::string& key) {
    if (!next('}')) return false;
    return read(key) && (take(":") || fail());
}

bool JsonReader::code_unit(unsigned& out) {
    out = 0;
    for (int i = 0; i < 4; i++) {
        char c = at_ < text_.size() ? text_[at_++] : ' ';
        int digit = is_digit(c)            ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) return fail();
        out = out << 4 | unsigned(digit);
    }
    return true;
}

// After the backslash.
bool JsonReader::escape(std::string& out) {
    char c = at_ < text_.size() ? text_[at_++] : ' ';
    constexpr std::string_view letters = "\"\\/bfnrt";
    constexpr std::string_view characters = "\"\\/\b\f\n\r\t";
    if (size_t which = letters.find(c); which != letters.npos) {
        out += characters[which];
        return true;
    }
    unsigned code;
    if (c != 'u' || !code_unit(code)) return fail();
    bool is_high = code >= 0xd800 && code < 0xdc00;
    if (is_high && text_.substr(at_, 2) == "\\u") {
        at_ += 2;
        unsigned low;
        if (!code_unit(low)) return false;
        bool is_low = low >= 0xdc00 && low < 0xe000;
        if (!is_low) put_utf8(out, 0xfffd);
        code = is_low ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) : low;
    }
    bool lone = code >= 0xd800 && code < 0xe000;
    put_utf8(out, lone ? 0xfffd : code);
    return true;
}

bool JsonReader::string(std::string& out) {
    out.clear();
    if (!take("\"")) return fail();
    while (at_ < text_.size()) {
        char c = text_[at_++];
        if (c == '"') return true;
        if (static_cast<unsigned char>(c) < 0x20) break;
        if (c != '\\') {
            out += c;
        } else if (!escape(out)) {
            return false;
        }
    }
    return fail();
}

bool JsonReader::number(std::string_view& out) {
    if (kind() != '0') return fail();
    size_t begin = at_;
    auto digits = [&] {
        size_t first = at_;
        while (at_ < text_.size() && is_digit(text_[at_])) at_++;
        return at_ > first;
    };
    if (text_[at_] == '-') at_++;
    size_t leading = at_;
    if (!digits() || (text_[leading] == '0' && at_ > leading + 1)) return fail();
    if (at_ < text_.size() && text_[at_] == '.') {
        at_++;
        if (!digits()) return fail();
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
        at_++;
        if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) at_++;
        if (!digits()) return fail();
    }
    out = text_.substr(begin, at_ - begin);
    return true;
}

bool JsonReader::read(std::string& out) { return string(out); }

bool JsonReader::read(uint64_t& out) {
    if (kind() == '"') {
        std::string text;
        return string(text) && (whole_number(text, out) || fail());
    }
    std::string_view text;
    return number(text) && (whole_number(text, out) || fail());
}

bool JsonReader::read(int64_t& out) {
    std::string_view text;
    return number(text) && (whole_number(text, out) || fail());
}

bool JsonReader::read(bool& out) {
    out = kind() == 't';
    return take(out ? "true" : "false") || fail();
}

bool JsonReader::read_null() { return kind() == 'n' && (take("null") || fail()); }

bool JsonReader::skip() {
    std::string text;
    std::string_view number_text;
    bool truth;
    switch (kind()) {
    case '{':
        begin_object();
        while (next_member(text)) skip();
        break;
    case '[':
        begin_array();
        while (next_element()) skip();
        break;
    case '"': string(text); break;
    case 't':
    case 'f': read(truth); break;
    case 'n': read_null(); break;
    case '0': number(number_text); break;
    default: fail();
    }
    return !failed_;
}

bool JsonReader::at_end() {
    skip_blanks();
    return !failed_ && at_ == text_.size();
}

} // namespace top
