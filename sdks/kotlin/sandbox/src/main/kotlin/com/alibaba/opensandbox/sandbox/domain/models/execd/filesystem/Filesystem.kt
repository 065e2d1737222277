package com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem

import java.io.InputStream
import java.time.OffsetDateTime

private const val DEFAULT_MODE = 755
private val MODE = Regex("[0-7]{1,4}")

private fun checkMode(mode: Int?) =
    require(mode == null || MODE.matches(mode.toString())) { "mode $mode is not one as 755 or 644: its digits are octal" }

private fun checkPath(path: String?): String {
    require(!path.isNullOrBlank()) { "path must not be blank" }
    return path
}

/** What a path is. */
data class EntryInfo(
    val path: String,
    /** Octal digits: 755, 644. */
    val mode: Int,
    val owner: String,
    val group: String,
    val size: Long,
    val modifiedAt: OffsetDateTime?,
    val createdAt: OffsetDateTime?,
    /** `file`, `directory`, `symlink` or `other`. */
    val type: String? = null,
)

/** A file to be written, or a directory to be made. */
class WriteEntry private constructor(
    builder: Builder,
) {
    val path: String = checkPath(builder.path)

    /** A String, a ByteArray or an InputStream; null: nothing. */
    val data: Any? = builder.data

    /** Octal digits: 755, 644. */
    val mode: Int = builder.mode.also(::checkMode)
    val owner: String? = builder.owner
    val group: String? = builder.group

    /** Of a text. */
    val encoding: String = builder.encoding

    class Builder internal constructor() {
        internal var path: String? = null
        internal var data: Any? = null
        internal var mode = DEFAULT_MODE
        internal var owner: String? = null
        internal var group: String? = null
        internal var encoding = "UTF-8"

        fun path(path: String) = apply { this.path = path }

        fun data(data: String) = apply { this.data = data }

        fun data(data: ByteArray) = apply { this.data = data }

        /** Read to its end when it is sent; not closed. */
        fun data(data: InputStream) = apply { this.data = data }

        fun mode(mode: Int) = apply { this.mode = mode }

        fun owner(owner: String?) = apply { this.owner = owner }

        fun group(group: String?) = apply { this.group = group }

        fun encoding(encoding: String) = apply { this.encoding = encoding }

        fun build(): WriteEntry = WriteEntry(this)
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}

/** A file to be moved. */
class MoveEntry(
    val src: String,
    val dest: String,
) {
    init {
        checkPath(src)
        checkPath(dest)
    }

    class Builder internal constructor() {
        private var src: String? = null
        private var dest: String? = null

        fun src(src: String) = apply { this.src = src }

        fun dest(dest: String) = apply { this.dest = dest }

        fun build(): MoveEntry = MoveEntry(checkPath(src), checkPath(dest))
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}

/** Rights and owner that a path gets. */
class SetPermissionEntry private constructor(
    builder: Builder,
) {
    val path: String = checkPath(builder.path)
    val mode: Int = builder.mode.also(::checkMode)
    val owner: String? = builder.owner
    val group: String? = builder.group

    class Builder internal constructor() {
        internal var path: String? = null
        internal var mode = DEFAULT_MODE
        internal var owner: String? = null
        internal var group: String? = null

        fun path(path: String) = apply { this.path = path }

        fun mode(mode: Int) = apply { this.mode = mode }

        fun owner(owner: String?) = apply { this.owner = owner }

        fun group(group: String?) = apply { this.group = group }

        fun build(): SetPermissionEntry = SetPermissionEntry(this)
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}

/** A text of a file that another one replaces. */
class ContentReplaceEntry(
    val path: String,
    val oldContent: String,
    val newContent: String,
) {
    init {
        checkPath(path)
    }

    class Builder internal constructor() {
        private var path: String? = null
        private var oldContent: String? = null
        private var newContent: String? = null

        fun path(path: String) = apply { this.path = path }

        fun oldContent(oldContent: String) = apply { this.oldContent = oldContent }

        fun newContent(newContent: String) = apply { this.newContent = newContent }

        fun build(): ContentReplaceEntry =
            ContentReplaceEntry(
                checkPath(path),
                requireNotNull(oldContent) { "oldContent must be given" },
                requireNotNull(newContent) { "newContent must be given" },
            )
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}

data class ContentReplaceResult(
    val path: String,
    val replacedCount: Int,
)

/** Files to be searched for below a directory. */
class SearchEntry(
    val path: String,
    /** A glob. */
    val pattern: String,
) {
    init {
        checkPath(path)
    }

    class Builder internal constructor() {
        private var path: String? = null
        private var pattern: String = "**"

        fun path(path: String) = apply { this.path = path }

        fun pattern(pattern: String) = apply { this.pattern = pattern }

        fun build(): SearchEntry = SearchEntry(checkPath(path), pattern)
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}

/** A change below a directory that is watched. */
data class FileEvent(
    /** `create`, `modify`, `delete`, `move` or `overflow`. */
    val type: String,
    val path: String?,
    /** Of a move: where it was. */
    val from: String?,
    val directory: Boolean,
    val timestamp: Long,
)
