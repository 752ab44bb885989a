from harbour.main import harbour as harbour
